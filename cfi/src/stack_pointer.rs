//! The rule of the stack pointer. Every row assumes that the caller's stack pointer is the CFA.

use cfipack_format::{Arch, Cfa, Register, Row, Rule};

use crate::{RA_SIGN_STATE, Registers};

/// The rule of the stack pointer. Use it as the [`Registers`] of an interpreter if you need only rows.
///
/// A row assumes that the caller's stack pointer is the CFA, so no other register's rule matters.
#[derive(Clone, Copy, Debug)]
pub struct StackPointer {
    register: Register,
    /// `None` if the CFI has no rule. Every ABI then defines the stack pointer by the CFA.
    rule: Option<Rule>,
}

impl Registers for StackPointer {
    #[inline]
    fn at_entry(arch: Arch) -> Self {
        Self { register: arch.stack_pointer(), rule: None }
    }

    #[inline]
    fn set(&mut self, register: Register, rule: Rule) -> bool {
        if register != self.register {
            return false;
        }
        self.rule = Some(rule);
        true
    }

    #[inline]
    fn ignored(&self, arch: Arch) -> u64 {
        let tracked = [self.register, arch.frame_pointer(), arch.return_address()];
        let sign_state = if arch.is_aarch64() { 1 << RA_SIGN_STATE.0 } else { 0 };
        !tracked.iter().fold(sign_state, |bits, register| bits | 1 << register.0)
    }

    #[inline]
    fn restore(&mut self, register: Register, initial: &Self) -> bool {
        if register != self.register {
            return false;
        }
        self.rule = initial.rule;
        true
    }
}

impl StackPointer {
    /// Returns whether the CFI has no rule.
    #[inline(always)]
    pub fn is_unset(&self) -> bool {
        self.rule.is_none()
    }

    /// Returns whether the rule's value is the CFA of `row` plus [`Arch::stack_pointer_from_cfa`].
    #[inline(always)]
    pub fn is_cfa(&self, arch: Arch, row: &Row) -> bool {
        self.rule.is_none_or(|rule| equals_cfa(rule, arch, row))
    }
}

/// Returns whether a rule's value is the CFA of `row`.
///
/// `DW_CFA_same_value` is such a rule only where the CFA is the stack pointer itself (DWARF 5, section 6.4.1). GHC
/// writes it for all Haskell code, which has its stack elsewhere.
#[cold]
fn equals_cfa(rule: Rule, arch: Arch, row: &Row) -> bool {
    let (below, own) = (arch.stack_pointer_from_cfa(), arch.stack_pointer());
    match rule {
        Rule::SameValue => equals_cfa(Rule::Register { register: own, offset: 0 }, arch, row),
        Rule::ValCfa(offset) => offset == below,
        Rule::Cfa(_) if arch.saves_stack_pointer() => true,
        Rule::Register { register, offset: 0 } if register != own && arch.saves_stack_pointer() => true,
        Rule::Register { register, offset } => {
            let offset = offset.checked_sub(below);
            offset.is_some_and(|offset| row.cfa == Cfa::Register { register, offset })
        }
        // In signal trampolines, both are loaded from the saved context.
        Rule::Memory { register, offset } if below == 0 => row.cfa == Cfa::Memory { register, offset },
        Rule::Memory { .. } | Rule::Cfa(_) | Rule::Undefined | Rule::Expression => false,
    }
}
