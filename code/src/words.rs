//! Prints rules and values in a few characters.

use std::fmt;

use cfipack_format::{Arch, Register, RegisterName, Rule, RuleWords};

use crate::value::Value;

/// Returns a register's name. The return address of x86 is not a register; its name is `ra`.
pub fn name(arch: Arch, register: Register) -> String {
    match arch.pushed_by_call() {
        1.. if register == arch.return_address() => "ra".to_string(),
        _ => RegisterName(arch, register).to_string(),
    }
}

/// Displays the place that a rule gives, for example `at CFA-16` or `in rbx`.
pub(crate) struct PlaceWords(pub Arch, pub Register, pub Rule);

impl fmt::Display for PlaceWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(arch, own, rule) = *self;
        match rule {
            Rule::SameValue => write!(f, "in {}", name(arch, own)),
            Rule::Register { register, offset: 0 } => write!(f, "in {}", name(arch, register)),
            Rule::Register { register, offset } => write!(f, "= {}{offset:+}", name(arch, register)),
            Rule::Memory { register, offset } => write!(f, "at {}{offset:+}", name(arch, register)),
            Rule::Undefined | Rule::Cfa(_) | Rule::ValCfa(_) | Rule::Expression => {
                write!(f, "{}", RuleWords(arch, rule))
            }
        }
    }
}

/// Displays a value, for example `the caller's rbx`.
pub(crate) struct ValueWords(pub Arch, pub Value);

impl fmt::Display for ValueWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Value::Caller(register) if register == self.0.return_address() => {
                f.write_str("the return address")
            }
            Value::Caller(register) => write!(f, "the caller's {}", name(self.0, register)),
            Value::Signed => f.write_str("the signed return address"),
            Value::Perhaps(_) => f.write_str("what a call has left"),
            Value::Cfa(offset) => write!(f, "CFA{offset:+}"),
            Value::Unknown
            | Value::Site(..)
            | Value::Number(_)
            | Value::Near(_)
            | Value::Entry(_)
            | Value::Target(_) => f.write_str("another value"),
        }
    }
}
