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
            if is_wrong(self.cfa[index]) {
                found.extend(self.wrong_cfa(index, state));
            }
            let Some(row) = self.row_at(index) else { return };
            let mut wrong = self.wrong[index] & !OPEN;
            while wrong != 0 {
                let (kind, words) = self.wrong_register(wrong.trailing_zeros(), state, row);
                wrong &= wrong - 1;
                found.push(self.at(index, kind, words));
            }
        });
        found
    }

    /// Returns whether the CFA is right at every return, or `None` if no path leads to a return where this is known.
    pub fn exact_returns(&self) -> Option<bool> {
        let mut exact = None;
        for (instruction, cfa) in self.analysis.instructions().as_slice().iter().zip(&self.cfa) {
            if instruction.flow == Flow::Return && *cfa != CfaState::Unknown {
                exact = Some(exact.unwrap_or(true) && *cfa == CfaState::Right);
            }
        }
        exact
    }

    fn wrong_cfa(&self, index: usize, state: &State) -> Option<Finding> {
        let cfa = self.row_at(index)?.row.cfa;
        let has = CfaWords(self.arch, cfa);
        let words = match (self.cfa[index], cfa) {
            (CfaState::Off(off), Cfa::Register { register, offset }) => {
                let right = self.cfa_words(register, offset.saturating_sub(off));
                format!("the CFA at this call is {right}, but the row has {has}")
            }
            (_, Cfa::Register { register, .. }) => match state.get(self.arch, register) {
                Value::Caller(own) if own == register => {
                    format!(
                        "{} has the caller's value at this call, but the row has {has}",
                        RegisterName(self.arch, register)
                    )
                }
                _ => format!(
                    "{} has another value at this call, but the row has {has}",
                    RegisterName(self.arch, register)
                ),
            },
            _ => format!("the row has {has}, which is not the CFA at this call"),
        };
        Some(self.at(index, Kind::Call, words))
    }

    fn at(&self, index: usize, kind: Kind, words: String) -> Finding {
        let wrong = self.extent(index, |_| false);
        Finding { index, wrong, kind, words, continues: false, after_call: None }
    }
}
