//! Finds the instructions that end a function, and the stores over saved registers that are executed.

use std::collections::BTreeSet;

use super::Analysis;
use crate::context::Context;
use crate::instruction::{Flow, Instruction, callee_saved};
use crate::state::State;
use crate::value::Value;

impl Analysis<'_> {
    /// Returns whether each store over a saved register is executed: a return follows it, and every return has as many of
    /// the caller's values as in the analysis `without` these stores; or no path to a return avoids them.
    pub(super) fn proves_overwrites(&self, without: &Self) -> bool {
        let overwrites = self.context.overwrites.iter();
        let overwrites: BTreeSet<usize> =
            overwrites.filter_map(|offset| self.instructions.index_of(*offset)).collect();
        if overwrites.len() >= Context::MAX_OVERWRITES || self.noreturn != without.noreturn {
            return false;
        }
        if self.kept_at_ends() == without.kept_at_ends() {
            let returning = self.returning();
            return overwrites.iter().all(|index| returning[*index]);
        }
        without.returning()[0] && !without.leading_to(&without.ends(), &overwrites)[0]
    }

    /// Returns the instructions that return or jump out of the function, with the registers that have the caller's values,
    /// as bits. Bit 63 stands for the return address.
    fn kept_at_ends(&self) -> Vec<(usize, u64)> {
        let arch = self.code.arch;
        let mut ends = Vec::new();
        self.for_each(|index, instruction, state| {
            let Some(state) = state.filter(|state| self.is_end(instruction, state)) else { return };
            let own = callee_saved(arch).iter().filter(|own| state.at(**own) == Value::caller(**own));
            let kept = own.fold(0, |bits, own| bits | 1 << own);
            ends.push((index, kept | u64::from(state.has_link(arch)) << 63));
        });
        ends
    }

    /// Returns whether an instruction returns or jumps out of the function, with the stack pointer as the call left it.
    fn is_end(&self, instruction: &Instruction, state: &State) -> bool {
        self.leaves(instruction.flow) && !state.has_frame(self.code.arch)
    }

    /// Returns whether an instruction returns or jumps out of the function, with any stack pointer.
    pub(super) fn leaves(&self, flow: Flow) -> bool {
        match flow {
            Flow::Return | Flow::JumpRegister(_) | Flow::JumpMemory => true,
            Flow::Jump(target) => target.is_none_or(|target| !self.is_inside(target)),
            Flow::Next | Flow::Call(_) | Flow::Branch(..) | Flow::JumpTable(_) | Flow::Stop => false,
        }
    }

    /// Returns for each instruction whether execution can get from it to a return or a tail call, with the stack pointer as
    /// the call left it. If it can, the state at this instruction may be right.
    pub(crate) fn returning(&self) -> Vec<bool> {
        self.leading_to(&self.ends(), &BTreeSet::new())
    }

    /// Returns for each instruction whether it is an [end](Self::is_end).
    fn ends(&self) -> Vec<bool> {
        let mut ends = vec![false; self.instructions.len()];
        self.for_each(|index, instruction, state| {
            ends[index] = state.is_some_and(|state| self.is_end(instruction, state));
        });
        ends
    }

    /// Returns for each instruction whether a path leads from it to an end in `ends`. The path passes no instruction in
    /// `avoided`.
    pub(crate) fn leading_to(&self, ends: &[bool], avoided: &BTreeSet<usize>) -> Vec<bool> {
        let next = self.instructions.iter().enumerate().flat_map(|(from, one)| {
            self.next_by(from, one.flow).into_iter().flatten().map(move |to| (to as u32, from as u32))
        });
        let mut edges: Vec<_> = next.collect();
        edges.sort_unstable();
        let mut leads = vec![false; ends.len()];
        let mut waiting: Vec<_> = (0..ends.len()).filter(|index| ends[*index]).collect();
        while let Some(index) = waiting.pop() {
            if leads[index] || avoided.contains(&index) {
                continue;
            }
            leads[index] = true;
            let first = edges.partition_point(|edge| (edge.0 as usize) < index);
            let before = edges[first..].iter().take_while(|edge| edge.0 as usize == index);
            waiting.extend(before.map(|edge| edge.1 as usize));
        }
        leads
    }
}
