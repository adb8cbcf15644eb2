//! Walks by the CFI itself, as gimli evaluates it. The tables are made of this CFI.

use std::cell::Cell;

use cfipack_decoder::walk::{FoundBy, StackFrame};
use cfipack_format::{Address, Arch};
use cfipack_testkit::by_cfi::{Stop, Values};
use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr,
    Pointer, RegisterRule, UnwindContext, UnwindSection as _, X86_64,
};

use super::recording::{SP, Sample};
use super::walk::{End, Space, Step, walk};

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
        // What was not known last, if a rule needs it.
        let lost = Cell::new(End::Broken);
        let own = |number: u16| {
            let value = registers.get(usize::from(number)).copied().flatten();
            if value.is_none() {
                lost.set(End::Register(number));
            }
            value
        };
        let memory = |address| {
            let word = sample.word(address);
            if word.is_none() {
                lost.set(End::Stack);
            }
            word
        };
        let end = |stop: Stop| match stop {
            Stop::Lost => lost.replace(End::Broken),
            _ => End::Broken,
        };
        let (section, encoding, arch) = (&self.section, fde.cie().encoding(), Arch::Amd64);
        let values = Values { section, encoding, registers: &own, memory: &memory, arch };
        let cfa = values.cfa(row).map_err(end)?;
        let pc = match row.register(X86_64::RA) {
            Some(RegisterRule::Undefined) => return Err(End::Outermost),
            // A call pushes the return address, even if the CFI does not mention it.
            None => memory(cfa.wrapping_sub(8)),
            Some(_) => values.register(row, X86_64::RA.0, Some(cfa)).map_err(end)?,
        };
        let pc = pc.ok_or_else(|| end(Stop::Lost))?;
        let mut callers = [None; 17];
        for (number, value) in callers.iter_mut().enumerate() {
            *value = values.register(row, number as u16, Some(cfa)).ok().flatten();
        }
        callers[usize::from(X86_64::RA.0)] = Some(pc);
        if row.register(X86_64::RSP).is_none() {
            callers[SP] = Some(cfa);
        }
        let sp = callers[SP].ok_or(End::Broken)?;
        let frame = StackFrame {
            pc: Address(pc),
            sp,
            is_exact: fde.is_signal_trampoline(),
            found_by: FoundBy::Table,
        };
        Ok(Step { frame, registers: callers })
    }
}

/// Walks a sample's stack by the CFI alone.
pub fn walk_by_cfi(
    sample: &Sample,
    space: &Space<'_, '_>,
    context: &mut UnwindContext<usize>,
    frames: &mut Vec<StackFrame>,
) -> End {
    walk(sample, space, innermost(sample), frames, |image, address, registers| {
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
