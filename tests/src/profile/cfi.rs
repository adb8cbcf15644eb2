//! Walks by the CFI itself, as gimli evaluates it. The tables are made of this CFI.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult,
    FrameDescriptionEntry, LittleEndian, Location, ParsedEhFrameHdr, Piece, Pointer, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection as _, UnwindTableRow, Value, X86_64,
};

use super::recording::{SP, Sample};
use super::walk::{End, Frame, Space, Step, walk};

type Slice<'f> = EndianSlice<'f, LittleEndian>;

/// A frame's registers by DWARF number, if known. The last one is the return address.
pub type Registers = [Option<u64>; 17];

/// A file's `.eh_frame` with the search table over it.
pub struct Cfi<'f> {
    section: EhFrame<Slice<'f>>,
    header: ParsedEhFrameHdr<Slice<'f>>,
    bases: BaseAddresses,
    /// The header's address and bytes, for framehop.
    pub header_bytes: (u64, &'f [u8]),
    /// The address of `.eh_frame`, and the bytes from there on.
    pub section_bytes: (u64, &'f [u8]),
}

impl<'f> Cfi<'f> {
    /// Reads an `.eh_frame_hdr`, which `PT_GNU_EH_FRAME` leads to. `from` returns the file's bytes from an address on.
    pub fn parse(address: u64, bytes: &'f [u8], from: impl FnOnce(u64) -> Option<&'f [u8]>) -> Option<Self> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(address);
        let header = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
        let Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
        header.table()?;
        let section_bytes = (start, from(start)?);
        Some(Self {
            section: EhFrame::new(section_bytes.1, LittleEndian),
            header,
            bases: bases.set_eh_frame(start),
            header_bytes: (address, bytes),
            section_bytes,
        })
    }

    /// Returns where the function starts that contains an address of the file.
    pub fn function_at(&self, address: u64) -> Option<u64> {
        let fde = self.fde_at(address).ok()?;
        Some(fde.initial_address())
    }

    fn fde_at(&self, address: u64) -> gimli::Result<FrameDescriptionEntry<Slice<'f>>> {
        let table = self.header.table().ok_or(gimli::Error::NoUnwindInfoForAddress)?;
        table.fde_for_address(&self.section, &self.bases, address, EhFrame::cie_from_offset)
    }

    /// Finds the caller of a frame at an address of the file.
    pub fn step(
        &self,
        address: u64,
        registers: &Registers,
        context: &mut UnwindContext<usize>,
        sample: &Sample,
    ) -> Result<Step<Registers>, End> {
        let fde = self.fde_at(address).map_err(no_row)?;
        let row =
            fde.unwind_info_for_address(&self.section, &self.bases, context, address).map_err(no_row)?;
        let values = Values { cfi: self, fde: &fde, registers, sample };
        let cfa = values.cfa(row)?;
        let pc = match row.register(X86_64::RA) {
            Some(RegisterRule::Undefined) => return Err(End::Outermost),
            _ => values.caller(row, X86_64::RA.0, cfa)?,
        };
        let mut callers = [None; 17];
        for (number, value) in callers.iter_mut().enumerate() {
            *value = values.caller(row, number as u16, cfa).ok();
        }
        if row.register(X86_64::RSP).is_none() {
            callers[SP] = Some(cfa);
        }
        let sp = callers[SP].ok_or(End::Broken)?;
        let frame = Frame { pc, sp, is_exact: fde.is_signal_trampoline(), is_guess: false };
        Ok(Step { frame, registers: callers })
    }
}

/// Walks a sample's stack by the CFI alone.
pub fn walk_by_cfi(
    sample: &Sample,
    space: &Space<'_, '_>,
    context: &mut UnwindContext<usize>,
    frames: &mut Vec<Frame>,
) -> End {
    walk(sample, space, innermost(sample), frames, |image, address, _, registers| {
        let cfi = image.cfi.as_ref().ok_or(End::NoRow)?;
        cfi.step(address, registers, context, sample)
    })
}

/// Returns all registers of a sample.
pub fn innermost(sample: &Sample) -> Registers {
    let mut registers = [Some(sample.pc); 17];
    registers.iter_mut().zip(sample.registers).for_each(|(known, value)| *known = Some(value));
    registers
}

/// Maps gimli's error to the end of a walk: no FDE has the PC, or gimli cannot read it.
fn no_row(error: gimli::Error) -> End {
    match error {
        gimli::Error::NoUnwindInfoForAddress => End::NoRow,
        _ => End::Broken,
    }
}

/// The frame in which the rules of a row are evaluated.
struct Values<'v, 'f> {
    cfi: &'v Cfi<'f>,
    fde: &'v FrameDescriptionEntry<Slice<'f>>,
    registers: &'v Registers,
    sample: &'v Sample,
}

impl<'f> Values<'_, 'f> {
    fn own(&self, number: u16) -> Result<u64, End> {
        let known = self.registers.get(usize::from(number)).copied().flatten();
        known.ok_or(End::Register(number))
    }

    fn word(&self, address: u64) -> Result<u64, End> {
        self.sample.word(address).ok_or(End::Stack)
    }

    fn cfa(&self, row: &UnwindTableRow<usize>) -> Result<u64, End> {
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                Ok(self.own(register.0)?.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    /// Returns the caller's value of a register.
    fn caller(&self, row: &UnwindTableRow<usize>, number: u16, cfa: u64) -> Result<u64, End> {
        match row.register(gimli::Register(number)) {
            // A call pushes the return address, even if the CFI does not say so.
            None if number == X86_64::RA.0 => self.word(cfa.wrapping_sub(8)),
            None | Some(RegisterRule::SameValue) => self.own(number),
            Some(RegisterRule::Offset(offset)) => self.word(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::ValOffset(offset)) => Ok(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => self.own(other.0),
            Some(RegisterRule::Expression(expression)) => self.word(self.evaluate(&expression, Some(cfa))?),
            Some(RegisterRule::ValExpression(expression)) => self.evaluate(&expression, Some(cfa)),
            Some(RegisterRule::Constant(value)) => Ok(value),
            Some(_) => Err(End::Register(number)),
        }
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, initial: Option<u64>) -> Result<u64, End> {
        let broken = |_| End::Broken;
        let expression = expression.get(&self.cfi.section).map_err(broken)?;
        let mut evaluation: Evaluation<Slice<'f>> = expression.evaluation(self.fde.cie().encoding());
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().map_err(broken)?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.own(register.0)?)).map_err(broken)?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(self.word(address)?)).map_err(broken)?
                }
                _ => return Err(End::Broken),
            };
        }
        match evaluation.as_result() {
            [Piece { location: Location::Address { address }, .. }] => Ok(*address),
            _ => Err(End::Broken),
        }
    }
}
