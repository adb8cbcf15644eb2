//! Rows without a return address, as an outermost frame has them. If the function returns, they hide its caller.

use std::collections::BTreeSet;

use cfipack_format::Rule;

use super::Judge;
use super::compare::{OPEN, RETURN_ADDRESS};
use crate::instruction::{Flow, Instruction, index_of};
use crate::state::State;
use crate::value::Value;

impl Judge<'_, '_> {
    /// Finds rows with an undefined return address from which a path leads to a return. A return after a call is not
    /// decided if nothing shows that the call returns: neither a path without calls, nor a row, nor a register that the
    /// function has changed and restores.
    pub(super) fn find_hidden_callers(&mut self) {
        let frame_pointer = index_of(self.arch, self.arch.frame_pointer()).map_or(0, |index| 1 << index);
        let (mut ends, mut changed, mut is_certain) = (vec![false; self.count], 0, false);
        let (mut kept, mut calls) = (u64::MAX, BTreeSet::new());
        self.analysis.for_each(|index, instruction, state| {
            if let Flow::Call(_) = instruction.flow {
                calls.insert(index);
            }
            let Some(state) = state else { return };
            ends[index] = self.returns_to_caller(index, instruction, state);
            if ends[index] {
                kept &= !self.changed(state);
                is_certain |= !self.hides_caller(index);
            } else {
                changed |= self.changed(state);
            }
        });
        is_certain |= changed & kept & !frame_pointer != 0;
        is_certain |= self.analysis.leading_to(&ends, &calls).first() == Some(&true);
        if is_certain {
            ends = self.analysis.leading_to(&ends, &BTreeSet::new());
        }
        // One finding covers a row, so all instructions of the row are wrong.
        let mut first = 0;
        while first < ends.len() {
            let row = |index| self.row_at(index).map(|row| row.row.start);
            let end = (first..ends.len()).find(|index| row(*index) != row(first)).unwrap_or(ends.len());
            if self.hides_caller(first) && ends[first..end].contains(&true) {
                let rest = self.verdicts.partition_point(|verdict| (verdict.first as usize) < first);
                let own =
                    self.verdicts[rest..].iter_mut().take_while(|verdict| (verdict.first as usize) < end);
                for verdict in own.filter(|verdict| verdict.compared.hidden & RETURN_ADDRESS != 0) {
                    verdict.compared.wrong |= if is_certain { RETURN_ADDRESS } else { OPEN };
                }
            }
            first = end;
        }
    }

    /// Returns whether an instruction returns, or jumps to another function, which returns to the caller.
    fn returns_to_caller(&self, index: usize, instruction: &Instruction, state: &State) -> bool {
        let link = Value::Caller(self.arch.return_address());
        match instruction.flow {
            Flow::JumpRegister(to) if state.at(to) == link => true,
            _ => {
                !state.has_frame(self.arch)
                    && state.has_link(self.arch)
                    && self.leaves(index, instruction, state)
            }
        }
    }

    fn hides_caller(&self, index: usize) -> bool {
        self.row_at(index).is_some_and(|row| row.row.return_address == Rule::Undefined)
    }
}
