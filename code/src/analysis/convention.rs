//! Conventions without callee-saved registers, such as those of OCaml and Go.

use cfipack_format::Family;

use super::Analysis;
use crate::instruction::{Flow, Index, Instruction, Op, REGISTERS, callee_saved_bits, index_of};
use crate::state::State;
use crate::value::Value;
use crate::x86;

impl Analysis<'_> {
    /// Returns whether the code uses the caller's value of a callee-saved register for more than to keep it: as an address, in
    /// a comparison, or in another register for the next function. Then the register is an argument, and no register has an
    /// owner. The frame pointer does not count, because code may follow the chain of frames.
    pub(crate) fn has_own_convention(&self) -> bool {
        let mut found = false;
        self.for_each(|_, instruction, state| {
            found = found || state.is_some_and(|state| self.uses_argument(instruction, state));
        });
        found
    }

    fn uses_argument(&self, instruction: &Instruction, state: &State) -> bool {
        let arch = self.code.arch;
        let owned = callee_saved_bits(arch);
        let owner = |index: Index| {
            let own = state.at(index).origin().filter(|own| *own != arch.frame_pointer());
            own.and_then(|own| index_of(arch, own)).filter(|own| owned & 1 << own != 0)
        };
        let is_argument = |index: Index| owner(index).is_some();
        let flow = instruction.flow;
        let enters_other = matches!(flow, Flow::Call(_)) || (flow != Flow::Return && self.leaves(flow));
        let mut others = (0..REGISTERS as Index).filter(|index| owned & 1 << index == 0);
        // If the callee-saved register has the caller's value again, the copy in another register is left over from keeping it.
        let is_handed_on = |index: Index| owner(index).is_some_and(|own| state.at(own) != Value::caller(own));
        enters_other && others.any(is_handed_on)
            || self.accessed(instruction).into_iter().flatten().any(is_argument)
            || self.instructions.ops(instruction).iter().any(|op| match *op {
                Op::Load { base, .. } | Op::Store { base, .. } => is_argument(base),
                Op::Compare { left, right } => is_argument(left) || is_argument(right),
                Op::Limit { register, .. } => is_argument(register),
                _ => false,
            })
    }

    /// Returns the registers of the memory operand of an instruction of x86, which need not have a known effect.
    fn accessed(&self, instruction: &Instruction) -> [Option<Index>; 2] {
        match self.code.bytes.get(instruction.offset as usize..) {
            Some(bytes) if self.code.arch.family() == Family::X86 => x86::accessed(self.code.arch, bytes),
            _ => [None, None],
        }
    }
}
