//! Prints rules in a few characters.

use core::fmt;

use crate::{Arch, Cfa, RegisterName, Rule};

/// Prints a CFA, such as `rsp+16`.
#[derive(Clone, Copy, Debug)]
pub struct CfaWords(pub Arch, pub Cfa);

impl fmt::Display for CfaWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Cfa::Undefined => f.write_str("undefined"),
            Cfa::Register { register, offset } => write!(f, "{}{offset:+}", RegisterName(self.0, register)),
            Cfa::Memory { register, offset } => write!(f, "*({}{offset:+})", RegisterName(self.0, register)),
            Cfa::Expression => f.write_str("expression"),
        }
    }
}

/// Prints a register's rule, such as `at CFA-8` or `= rbx`.
#[derive(Clone, Copy, Debug)]
pub struct RuleWords(pub Arch, pub Rule);

impl fmt::Display for RuleWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(arch, rule) = *self;
        match rule {
            Rule::SameValue => f.write_str("unchanged"),
            Rule::Undefined => f.write_str("undefined"),
            Rule::Cfa(offset) => write!(f, "at CFA{offset:+}"),
            Rule::ValCfa(offset) => write!(f, "= CFA{offset:+}"),
            Rule::Register { register, offset: 0 } => write!(f, "= {}", RegisterName(arch, register)),
            Rule::Register { register, offset } => write!(f, "= {}{offset:+}", RegisterName(arch, register)),
            Rule::Memory { register, offset } => write!(f, "at {}{offset:+}", RegisterName(arch, register)),
            Rule::Expression => f.write_str("by a DWARF expression"),
        }
    }
}
