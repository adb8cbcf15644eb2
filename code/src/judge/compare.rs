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
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) cfa: CfaState,
    /// The registers with wrong rules, as bits.
    pub(super) wrong: u64,
    /// The registers without a rule that do not have the caller's value, as bits.
    pub(super) lost: u64,
    /// The registers whose caller's value no unwinder recovers by the row, as bits.
    pub(super) hidden: u64,
}

impl Compared {
    /// The row agrees with the state in everything.
    pub(super) const RIGHT: Self = Self { cfa: CfaState::Right, wrong: 0, lost: 0, hidden: 0 };

    /// Returns whether no register is lost or hidden.
    pub(super) fn is_plain(&self) -> bool {
        self.lost | self.hidden == 0
    }
}

pub(super) const RETURN_ADDRESS: u64 = 1 << 63;
pub(super) const SIGNATURE: u64 = 1 << 62;
/// A rule of the row cannot be evaluated, so nothing is known about it.
pub(super) const OPEN: u64 = 1 << 61;

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
            return Compared { hidden: RETURN_ADDRESS, ..Compared::RIGHT };
        }
        let unknown = Compared { cfa: CfaState::Unknown, ..Compared::RIGHT };
        let cfa = self.compare_cfa(state, row.row.cfa);
        // Rules are relative to the row's CFA, so they can only be checked if the CFA is right.
        if cfa != CfaState::Right && row.moves_stack(self.arch) {
            return unknown;
        }
        if cfa != CfaState::Right {
            return Compared { cfa, ..unknown };
        }
        // Only the code of a called function shows whether it has kept the return address in this register.
        let link = self.arch.return_address();
        let at = self.value_by(state, link, row.row.return_address);
        if at == Some(Value::Perhaps(link)) {
            return unknown;
        }
        let mut compared = Compared { wrong: self.wrong_return_address(at, row), ..Compared::RIGHT };
        for index in callee_saved(self.arch) {
            let register = register_of(*index);
            match row.rule(self.arch, register) {
                Rule::SameValue => compared.lost |= self.wrong_bit(state, register, Rule::SameValue),
                Rule::Undefined => compared.hidden |= 1 << index,
                rule => compared.wrong |= self.wrong_bit(state, register, rule),
            }
        }
        for (register, rule) in row.saved {
            let is_other =
                index_of(self.arch, *register).is_some_and(|index| !callee_saved(self.arch).contains(&index));
            if !is_other {
                continue;
            }
            // The code may have copied a part of an argument, because it needs no more.
            let is_part = |from| state.get(self.arch, from) == Value::Unknown;
            let is_open = matches!(rule, Rule::Register { register, .. } if is_part(*register));
            compared.wrong |= if is_open { OPEN } else { self.wrong_bit(state, *register, *rule) };
        }
        compared
    }

    pub(super) fn compare_cfa(&self, state: &State, cfa: Cfa) -> CfaState {
        match cfa {
            Cfa::Register { register, offset } => match state.get(self.arch, register) {
                Value::Cfa(place) => match i64::from(place).saturating_add(offset) {
                    0 => CfaState::Right,
                    off => CfaState::Off(off),
                },
                // It may be the stack pointer of another stack.
                _ if register == self.arch.stack_pointer() => CfaState::Unknown,
                Value::Caller(own) if self.has_helper && own == self.arch.frame_pointer() => {
                    CfaState::Unknown
                }
                Value::Caller(_) | Value::Signed | Value::Number(_) | Value::Near(_) | Value::Target(_) => {
                    CfaState::Wrong
                }
                Value::Unknown | Value::Perhaps(_) | Value::Site(..) | Value::Entry(_) => CfaState::Unknown,
            },
            Cfa::Memory { register, offset } => match state.pointed(self.arch, register, offset) {
                Value::Cfa(0) => CfaState::Right,
                Value::Cfa(off) => CfaState::Off(off.into()),
                _ => CfaState::Unknown,
            },
            Cfa::Undefined | Cfa::Expression => CfaState::Unknown,
        }
    }

    /// Returns the bit of what is wrong with a row's return address, given the value that its rule gives.
    fn wrong_return_address(&self, value: Option<Value>, row: FullRow<'_>) -> u64 {
        let is_signed = match value {
            Some(Value::Caller(register)) if register == self.arch.return_address() => false,
            Some(Value::Signed) => true,
            Some(_) => return RETURN_ADDRESS,
            None => return OPEN,
        };
        if is_signed == row.row.signed && !(is_signed && self.has_other_key) { 0 } else { SIGNATURE }
    }

    /// Returns the bit of a register if the rule gives another value than the caller's, or [`OPEN`] if this is not
    /// known.
    fn wrong_bit(&self, state: &State, register: Register, rule: Rule) -> u64 {
        let Some(index) = index_of(self.arch, register).filter(|_| rule != Rule::Undefined) else { return 0 };
        let is_own = |value| match value {
            Value::Cfa(offset) if register == self.arch.stack_pointer() => {
                i64::from(offset) == self.arch.stack_pointer_from_cfa()
            }
            Value::Caller(own) | Value::Perhaps(own) => own == register,
            _ => false,
        };
        self.value_by(state, register, rule).map_or(OPEN, |value| if is_own(value) { 0 } else { 1 << index })
    }

    /// Returns the value that a rule gives for a register, or `None` if the rule cannot be evaluated.
    pub(super) fn value_by(&self, state: &State, register: Register, rule: Rule) -> Option<Value> {
        let arch = self.arch;
        match rule {
            Rule::SameValue => Some(state.get(arch, register)),
            Rule::Cfa(offset) => Some(self.stored(state, offset)),
            Rule::ValCfa(offset) => Some(i32::try_from(offset).map_or(Value::Unknown, Value::Cfa)),
            Rule::Register { register, offset } => {
                let value = state.get(arch, register);
                let is_known = offset == 0 || value != Value::Unknown;
                let add = i32::try_from(offset).ok().filter(|_| is_known)?;
                Some(value.plus(add))
            }
            Rule::Memory { register: base, offset } => match state.get(arch, base) {
                Value::Cfa(place) => Some(self.stored(state, i64::from(place).saturating_add(offset))),
                value => {
                    let is_own = |own: Register| state.get(arch, own) == Value::Caller(own);
                    let is_kept =
                        |own| index_of(arch, own).is_some_and(|own| callee_saved(arch).contains(&own));
                    // Both registers are the caller's again: the rule counts from the register of a frame that is gone.
                    let is_gone = is_kept(base) && is_own(base) && is_own(register);
                    let is_in_frame = value.place().is_some_and(|place| place.is_in_frame());
                    let value = state.pointed(arch, base, offset);
                    // Not every store outside of the frame is followed.
                    (is_in_frame || is_gone || value != Value::Unknown).then_some(value)
                }
            },
            Rule::Undefined | Rule::Expression => None,
        }
    }

    /// Returns the value that is stored at the CFA plus `offset`. It is not known below the stack pointer and the red
    /// zone, where the next signal overwrites it.
    pub(super) fn stored(&self, state: &State, offset: i64) -> Value {
        match state.get(self.arch, self.arch.stack_pointer()) {
            Value::Cfa(top) if offset < i64::from(top) - i64::from(self.red_zone) => Value::Unknown,
            _ => state.slot(offset),
        }
    }
}
