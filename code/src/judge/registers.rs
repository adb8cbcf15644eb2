//! Finds the places where the rule of a register, or of the return address, becomes wrong.

use cfipack_format::{Register, Rule};

use super::compare::{OPEN, RETURN_ADDRESS, SIGNATURE};
use super::{Finding, Judge, Kind};
use crate::instruction::register_of;
use crate::rows::FullRow;
use crate::state::State;
use crate::value::Value;
use crate::words::{PlaceWords, ValueWords, name};

impl Judge<'_, '_> {
    /// Finds registers with rules that are right before an instruction and wrong at it.
    pub(super) fn registers(
        &self,
        index: usize,
        call: Option<usize>,
        state: &State,
        found: &mut Vec<Finding>,
    ) {
        let before = index.checked_sub(1).map_or(0, |before| self.wrong(before));
        let new = self.wrong(index) & !before & !OPEN;
        let Some(row) = self.row_at(index).filter(|_| new != 0) else { return };
        let after_call = call.filter(|call| self.changes_at_return(*call));
        for (kind, bits, words) in self.wrong_rules(new, state, row) {
            let wrong = self.extent(index, bits);
            found.push(Finding { after_call, ..Finding::new(index, wrong, kind, words) });
        }
    }

    /// Describes wrong rules, given as bits. All registers with a wrong place are one fault: the row is late, or wrong.
    pub(super) fn wrong_rules(
        &self,
        mut bits: u64,
        state: &State,
        row: FullRow<'_>,
    ) -> Vec<(Kind, u64, String)> {
        let mut faults: Vec<(Kind, u64, String)> = Vec::new();
        while bits != 0 {
            // The return address is first.
            let bit = 63 - bits.leading_zeros();
            bits &= !(1 << bit);
            let (kind, words) = self.wrong_register(bit, state, row);
            let is_place = |kind| matches!(kind, Kind::ReturnAddress | Kind::SavedRegister);
            match faults.iter_mut().find(|known| known.0 == kind || is_place(known.0) && is_place(kind)) {
                Some((_, known, words)) => {
                    words.push_str(if known.is_power_of_two() { "; also wrong: " } else { ", " });
                    words.push_str(&name(self.arch, register_of(bit as u8)));
                    *known |= 1 << bit;
                }
                None => faults.push((kind, 1 << bit, words)),
            }
        }
        faults
    }

    /// Returns whether a row starts after a call: at the next instruction, or at the next one that is not padding.
    fn changes_at_return(&self, call: usize) -> bool {
        let row = |index: usize| self.row_at(index).map(|row| row.row.start);
        self.analysis.instructions().after_padding(call).is_some_and(|next| row(call) != row(next))
    }

    fn wrong_register(&self, bit: u32, state: &State, row: FullRow<'_>) -> (Kind, String) {
        let arch = self.arch;
        let link = arch.return_address();
        if 1 << bit == SIGNATURE {
            let words = if self.has_other_key {
                "the code signs the return address with another key than the CIE has"
            } else if row.row.signed {
                "the row has a signed return address, but the code has not signed it"
            } else {
                "the return address is signed, but the row has it unsigned"
            };
            return (Kind::Signature, words.to_string());
        }
        let is_link = 1 << bit == RETURN_ADDRESS;
        let register = if is_link { link } else { register_of(bit as u8) };
        let rule = row.rule(arch, register);
        let own = if is_link { "the return address".to_string() } else { name(arch, register) };
        let is = self.whereabouts(state, register, rule);
        let value = self.value_by(state, register, rule).unwrap_or(Value::Unknown);
        let is_below = matches!(rule, Rule::Cfa(offset) if self.stored(state, offset) != state.slot(offset));
        let there = match (rule, value) {
            _ if is_below => "where the next signal overwrites it".to_string(),
            (Rule::Undefined, _) if is_link => "but the function returns to it".to_string(),
            (Rule::Undefined, _) => "but the function restores it".to_string(),
            (Rule::Cfa(_) | Rule::Memory { .. }, Value::Unknown) => {
                "nothing known is stored there".to_string()
            }
            (Rule::SameValue, Value::Unknown) => "which has another value".to_string(),
            (Rule::SameValue, Value::Caller(own)) if own == register => {
                "which the call overwrites".to_string()
            }
            (Rule::ValCfa(_), _) => "which is not the caller's value".to_string(),
            (_, value) => format!("where the code has {}", ValueWords(arch, value)),
        };
        let kind = match (is_link, rule) {
            (true, _) => Kind::ReturnAddress,
            (false, Rule::SameValue) => Kind::LostRegister,
            (false, _) => Kind::SavedRegister,
        };
        (kind, format!("the row has {own} {}, {there}{is}", PlaceWords(arch, register, rule)))
    }

    /// Returns where the caller's value of a register is, as the end of a sentence.
    fn whereabouts(&self, state: &State, register: Register, rule: Rule) -> String {
        let arch = self.arch;
        let is_own = |value: Value| {
            value == Value::Caller(register) || (value == Value::Signed && register == arch.return_address())
        };
        if rule != Rule::SameValue && is_own(state.get(arch, register)) {
            return format!("; it is in {}", name(arch, register));
        }
        let slot = state.slots().find(|slot| is_own(slot.1) && rule != Rule::Cfa(slot.0.into()));
        slot.map_or_else(String::new, |(offset, _)| format!("; it is at CFA{offset:+}"))
    }
}
