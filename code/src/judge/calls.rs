//! The rows at calls alone. Some compilers write CFI that is right at calls only, because exceptions and debuggers that
//! stop at calls need no more.

use cfipack_format::{Cfa, CfaWords, RegisterName};

use super::compare::{CfaState, OPEN};
use super::{Finding, Judge, Judgement, Kind, is_wrong};
use crate::instruction::Flow;
use crate::state::State;
use crate::value::Value;

impl Judge<'_, '_> {
    /// Returns the calls whose rows are wrong, ascending. These are all faults that an unwinder meets if every frame but
    /// the innermost one is at a call.
    pub fn at_calls(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        self.analysis.for_each(|index, instruction, state| {
            let (Flow::Call(_), Some(state)) = (instruction.flow, state) else { return };
            if found.len() >= Judgement::MAX_FINDINGS {
                return;
            }
            let Some(row) = self.row_at(index) else { return };
            let is_lost = self.cfa(index) == CfaState::Unknown && self.is_lost(index, state, row.row.cfa);
            if is_lost || is_wrong(self.cfa(index)) {
                found.push(self.wrong_cfa(index, state, row.row.cfa));
            }
            let faults = self.wrong_rules(self.wrong(index) & !OPEN, state, row);
            found.extend(faults.into_iter().map(|(kind, _, words)| self.at(index, kind, words)));
        });
        found
    }

    /// Returns whether the function has rows for the ends of its frame, right or wrong. It has if the CFA of the entry
    /// applies again after the frame's rows, or if a row takes something back. It has not if all rows build the frame, and
    /// a return is in it. Otherwise the result is `None`.
    pub fn ends_frames(&self) -> Option<bool> {
        let entry =
            Cfa::Register { register: self.arch.stack_pointer(), offset: self.arch.cfa_offset_at_entry() };
        let mut frame = self.rows.iter().skip_while(|row| row.row.cfa == entry);
        let mut before = frame.next()?.row.cfa;
        if frame.clone().any(|row| row.row.cfa == entry) {
            return Some(true);
        }
        let all = self.analysis.instructions();
        let offsets =
            |flow: fn(Flow) -> bool| all.iter().filter(move |one| flow(one.flow)).map(|one| one.offset);
        let cfa = |offset| Some(self.rows.get(self.rows.index_at(offset)?)?.row.cfa);
        // A call's arguments that were pushed are taken back, and this is no end.
        let calls = offsets(|flow| matches!(flow, Flow::Call(_))).filter_map(cfa);
        let least = calls.filter_map(|cfa| self.above_stack(cfa)).min().unwrap_or(i64::MAX);
        for row in frame {
            let takes_back = match (self.above_stack(before), self.above_stack(row.row.cfa)) {
                (Some(before), Some(after)) => after < before.min(least),
                (None, _) => before != row.row.cfa,
                (Some(_), None) => false,
            };
            let at = all.index_of(row.row.start.0);
            if takes_back || at.is_some_and(|at| all.at(at).flow == Flow::Return) {
                return Some(true);
            }
            before = row.row.cfa;
        }
        offsets(|flow| flow == Flow::Return).filter_map(cfa).any(|cfa| cfa != entry).then_some(false)
    }

    /// Returns the distance of a CFA from the stack pointer, if it counts from there.
    fn above_stack(&self, cfa: Cfa) -> Option<i64> {
        match cfa {
            Cfa::Register { register, offset } if register == self.arch.stack_pointer() => Some(offset),
            Cfa::Register { .. } | Cfa::Memory { .. } | Cfa::Undefined | Cfa::Expression => None,
        }
    }

    fn wrong_cfa(&self, index: usize, state: &State, cfa: Cfa) -> Finding {
        let has = CfaWords(self.arch, cfa);
        let words = match (self.cfa(index), cfa) {
            (CfaState::Off(off), Cfa::Register { register, offset }) => {
                let right = self.cfa_words(register, offset.saturating_sub(off));
                format!("the CFA at this call is {right}, but the row has {has}")
            }
            (_, Cfa::Register { register, .. }) => {
                let name = RegisterName(self.arch, register);
                let value = match state.get(self.arch, register) {
                    Value::Caller(own) if own == register => "the caller's",
                    _ => "another",
                };
                format!("{name} has {value} value at this call, but the row has {has}")
            }
            _ => format!("the row has {has}, which is not the CFA at this call"),
        };
        self.at(index, Kind::Call, words)
    }

    /// Makes a finding about one instruction.
    pub(super) fn at(&self, index: usize, kind: Kind, words: String) -> Finding {
        let instruction = self.analysis.instructions().at(index);
        Finding::new(index, (instruction.offset, instruction.end()), kind, words)
    }
}
