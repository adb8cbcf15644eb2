//! Compares a row with the state at an instruction.

use cfipack_format::{Cfa, Register, Rule};

use super::Judge;
use crate::instruction::{callee_saved, index_of, register_of};
use crate::rows::FullRow;
use crate::state::State;
use crate::value::Value;

/// Whether a row's CFA is right at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CfaState {
    /// This cannot be decided.
    Unknown,
    /// The row is right.
    Right,
    /// The row's CFA is off by this number of bytes.
    Off(i64),
    /// The row's CFA is wrong by an unknown number of bytes.
    Wrong,
}

/// The result of comparing a row with a state.
#[derive(Clone, Copy)]
pub(super) struct Compared {
    pub(super) cfa: CfaState,
    /// The registers with wrong rules, as bits.
    pub(super) wrong: u64,
    /// The registers without a rule that do not have the caller's value, as bits.
    pub(super) lost: u64,
}

impl Compared {
    /// The row agrees with the state in everything.
    pub(super) const RIGHT: Self = Self { cfa: CfaState::Right, wrong: 0, lost: 0 };
}

pub(super) const RETURN_ADDRESS: u64 = 1 << 63;
pub(super) const SIGNATURE: u64 = 1 << 62;

impl Judge<'_, '_> {
    /// Returns the callee-saved registers that do not have the caller's value, as bits.
    pub(super) fn changed(&self, state: &State) -> u64 {
        callee_saved(self.arch).iter().fold(0, |changed, index| {
            changed | if state.at(*index) == Value::caller(*index) { 0 } else { 1 << index }
        })
    }

    /// Compares a row with a state.
    pub(super) fn compare(&self, state: &State, row: FullRow<'_>) -> Compared {
        // A row with an undefined return address marks the outermost frame. No unwinder needs its CFA.
        if row.row.return_address == Rule::Undefined {
            return Compared { cfa: CfaState::Right, wrong: 0, lost: 0 };
        }
        let cfa = match row.row.cfa {
            Cfa::Register { register, offset } => match state.get(self.arch, register) {
                Value::Cfa(place) => match i64::from(place).saturating_add(offset) {
                    0 => CfaState::Right,
                    off => CfaState::Off(off),
                },
                value if register == self.arch.stack_pointer() && value.can_be_other_stack() => {
                    CfaState::Unknown
                }
                Value::Caller(_) | Value::Signed | Value::Number(_) | Value::Near(_) => CfaState::Wrong,
                Value::Unknown | Value::Perhaps(_) | Value::Site(..) | Value::Entry(_) | Value::Target(_) => {
                    CfaState::Unknown
                }
            },
            Cfa::Memory { register, offset } => match state.pointed(self.arch, register, offset) {
                Value::Cfa(0) => CfaState::Right,
                Value::Cfa(off) => CfaState::Off(off.into()),
                _ => CfaState::Unknown,
            },
            Cfa::Undefined | Cfa::Expression => CfaState::Unknown,
        };
        // Only the code of a called function shows whether it has kept the return address in this register.
        let link = self.arch.return_address();
        let at = self.value_by(state, link, row.row.return_address);
        if cfa == CfaState::Right && at == Some(Value::Perhaps(link)) {
            return Compared { cfa: CfaState::Unknown, wrong: 0, lost: 0 };
        }
        // Rules are relative to the row's CFA, so they can only be checked if the CFA is right.
        let (wrong, lost) = if cfa == CfaState::Right { self.wrong_rules(state, row) } else { (0, 0) };
        Compared { cfa, wrong, lost }
    }

    /// Returns the registers with wrong rules, and the registers without a rule that have lost the caller's value.
    fn wrong_rules(&self, state: &State, row: FullRow<'_>) -> (u64, u64) {
        let arch = self.arch;
        let (mut wrong, mut lost) = (0, 0);
        let link = arch.return_address();
        match self.value_by(state, link, row.row.return_address) {
            Some(Value::Caller(register)) if register == link => {
                wrong |= if row.row.signed { SIGNATURE } else { 0 };
            }
            Some(Value::Signed) => wrong |= if row.row.signed { 0 } else { SIGNATURE },
            Some(_) => wrong |= RETURN_ADDRESS,
            None => {}
        }
        for index in callee_saved(arch) {
            let register = register_of(*index);
            let rule = row.rule(arch, register);
            match self.value_by(state, register, rule) {
                Some(Value::Perhaps(own)) if own == register => {}
                Some(value) if value != Value::Caller(register) => match rule {
                    Rule::SameValue => lost |= 1 << index,
                    _ => wrong |= 1 << index,
                },
                _ => {}
            }
        }
        for (register, rule) in row.saved {
            let Some(index) = index_of(arch, *register) else { continue };
            let is_other = !callee_saved(arch).contains(&index);
            let is_place = matches!(rule, Rule::Cfa(_));
            if is_other
                && is_place
                && self.value_by(state, *register, *rule) != Some(Value::Caller(*register))
            {
                wrong |= 1 << index;
            }
        }
        (wrong, lost)
    }

    /// Returns the value that a rule gives for a register, or `None` if the rule cannot be evaluated.
    pub(super) fn value_by(&self, state: &State, register: Register, rule: Rule) -> Option<Value> {
        let arch = self.arch;
        match rule {
            Rule::SameValue => Some(state.get(arch, register)),
            Rule::Cfa(offset) => Some(state.slot(offset)),
            Rule::Register { register, offset: 0 } => Some(state.get(arch, register)),
            Rule::Memory { register, offset } => {
                state.get(arch, register).place().map(|_| state.pointed(arch, register, offset))
            }
            Rule::Undefined | Rule::ValCfa(_) | Rule::Register { .. } | Rule::Expression => None,
        }
    }
}
