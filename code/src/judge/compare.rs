//! One row, and the state at one instruction.

use cfipack_format::{Cfa, Register, Rule};

use super::Judge;
use crate::instruction::{callee_saved, index_of, register_of};
use crate::rows::FullRow;
use crate::state::State;
use crate::value::Value;

/// The state of a row's CFA at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CfaState {
    /// Not decided.
    Unknown,
    /// The row is right.
    Right,
    /// It is off by so many bytes.
    Off(i64),
    /// It is wrong, by an unknown distance.
    Wrong,
}

/// The comparison of a row with the state at an instruction.
#[derive(Clone, Copy)]
pub(super) struct Compared {
    pub(super) cfa: CfaState,
    /// Registers with wrong rules.
    pub(super) wrong: u64,
    /// Registers without a rule that have another value than the caller's.
    pub(super) lost: u64,
}

impl Compared {
    /// All is as the row has it.
    pub(super) const RIGHT: Self = Self { cfa: CfaState::Right, wrong: 0, lost: 0 };
}

pub(super) const RETURN_ADDRESS: u64 = 1 << 63;
pub(super) const SIGNATURE: u64 = 1 << 62;

impl Judge<'_, '_> {
    /// The callee-saved registers that have other values than the caller's.
    pub(super) fn changed(&self, state: &State) -> u64 {
        callee_saved(self.arch).iter().fold(0, |changed, index| {
            changed | if state.at(*index) == Value::caller(*index) { 0 } else { 1 << index }
        })
    }

    /// Compares a row with a state.
    pub(super) fn compare(&self, state: &State, row: FullRow<'_>) -> Compared {
        // No unwinder needs the CFA of an outermost frame.
        if row.row.return_address == Rule::Undefined {
            return Compared { cfa: CfaState::Right, wrong: 0, lost: 0 };
        }
        let cfa = match row.row.cfa {
            Cfa::Register { register, offset } => match state.get(self.arch, register) {
                Value::Cfa(place) => match i64::from(place).saturating_add(offset) {
                    0 => CfaState::Right,
                    off => CfaState::Off(off),
                },
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
        // Only the called function's code would tell.
        let link = self.arch.return_address();
        let at = self.value_by(state, link, row.row.return_address);
        if cfa == CfaState::Right && at == Some(Value::Perhaps(link)) {
            return Compared { cfa: CfaState::Unknown, wrong: 0, lost: 0 };
        }
        // Rules count from the row's CFA.
        let (wrong, lost) = if cfa == CfaState::Right { self.wrong_rules(state, row) } else { (0, 0) };
        Compared { cfa, wrong, lost }
    }

    /// The registers with wrong rules, and those without one that have another value.
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

    /// The value that a rule gives for a register; none if it cannot be evaluated.
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
