//! The walk by `.sframe` tables.

use cfipack::decoder::sframe::{Registers, StepError, step};
use cfipack::format::{Arch, Register};

use crate::recording::{FP, SP, Sample};
use crate::walk::{End, Frame, Space, Step, walk};

/// Walks up a sample's stack by the tables alone.
pub fn walk_by_table(sample: &Sample, space: &Space<'_, '_>, frames: &mut Vec<Frame>) -> End {
    // A row of the innermost frame may need any register.
    let others =
        std::array::from_fn::<_, 16, _>(|number| (Register(number as u16), sample.registers[number]));
    let registers =
        Registers { sp: sample.registers[SP], fp: Some(sample.registers[FP]), lr: None, others: &others };
    walk(sample, space, registers, frames, |image, address, _, registers| {
        let row = image.table.lookup_frame(cfipack::format::Address(address));
        let frame = row.map_err(|_| End::Broken)?.ok_or(End::NoRow)?;
        let caller = step(Arch::Amd64, &frame.row, registers, |address| sample.word(address.0));
        let caller = caller.map_err(|error| match error {
            StepError::Outermost => End::Outermost,
            StepError::Memory { .. } => End::Stack,
            StepError::Register { register, .. } => End::Register(register.0),
            _ => End::Broken,
        })?;
        let next = Frame { pc: caller.pc.0, sp: caller.sp, is_exact: frame.is_signal_frame };
        Ok(Step { frame: next, registers: caller.registers() })
    })
}
