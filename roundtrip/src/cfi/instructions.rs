//! Looks at single instructions, for questions that rows do not answer.

use cfipack_format::Endian;
use cfipack_format::cfi::SectionKind;
use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, DebugFrame, EhFrame, EndianSlice,
    RunTimeEndian, UnwindSection,
};

use super::about::About;

/// The reader for single instructions. It is a different type from the reader for rows: gimli's loop over instructions
/// is inlined into its evaluation only if there is no other user of the loop.
type Reader<'f> = EndianSlice<'f, RunTimeEndian>;

/// The instructions of a CIE or an FDE.
pub(super) type Iter<'l, 'f> = CallFrameInstructionIter<'l, Reader<'f>>;

/// Lists the instructions of a section's CIEs and FDEs.
#[derive(Debug)]
pub(super) struct Listed<'f> {
    frames: Frames<'f>,
    bases: BaseAddresses,
}

#[derive(Debug)]
enum Frames<'f> {
    Eh(EhFrame<Reader<'f>>),
    Debug(DebugFrame<Reader<'f>>),
}

impl<'f> Listed<'f> {
    pub(super) fn new(about: &About<'f>) -> Self {
        let endian = match about.section.arch.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let address_size = about.section.arch.pointer_size();
        let frames = match about.section.kind {
            SectionKind::EhFrame => {
                let mut frames = EhFrame::new(about.bytes, endian);
                frames.set_address_size(address_size);
                frames.set_vendor(about.vendor);
                Frames::Eh(frames)
            }
            SectionKind::DebugFrame => {
                let mut frames = DebugFrame::new(about.bytes, endian);
                frames.set_address_size(address_size);
                frames.set_vendor(about.vendor);
                Frames::Debug(frames)
            }
        };
        Self { frames, bases: about.bases.clone() }
    }

    /// Returns the instructions of the CIE at an offset.
    pub(super) fn of_cie(&self, offset: usize) -> gimli::Result<Iter<'_, 'f>> {
        match &self.frames {
            Frames::Eh(frames) => of_cie(frames, &self.bases, offset.into()),
            Frames::Debug(frames) => of_cie(frames, &self.bases, offset.into()),
        }
    }

    /// Returns the instructions of the FDE at an offset.
    pub(super) fn of_fde(&self, offset: usize) -> gimli::Result<Iter<'_, 'f>> {
        match &self.frames {
            Frames::Eh(frames) => of_fde(frames, &self.bases, offset.into()),
            Frames::Debug(frames) => of_fde(frames, &self.bases, offset.into()),
        }
    }
}

fn of_cie<'l, 'f, S: UnwindSection<Reader<'f>>>(
    frames: &'l S,
    bases: &'l BaseAddresses,
    offset: S::Offset,
) -> gimli::Result<Iter<'l, 'f>> {
    Ok(frames.cie_from_offset(bases, offset)?.instructions(frames, bases))
}

fn of_fde<'l, 'f, S: UnwindSection<Reader<'f>>>(
    frames: &'l S,
    bases: &'l BaseAddresses,
    offset: S::Offset,
) -> gimli::Result<Iter<'l, 'f>> {
    let fde = frames.fde_from_offset(bases, offset, S::cie_from_offset)?;
    Ok(fde.instructions(frames, bases))
}

/// Returns whether an instruction moves to an address, or cannot be read.
pub(super) fn has_addresses(mut instructions: Iter<'_, '_>) -> bool {
    loop {
        match instructions.next() {
            Ok(Some(CallFrameInstruction::SetLoc { .. })) | Err(_) => return true,
            Ok(Some(_)) => {}
            Ok(None) => return false,
        }
    }
}

/// Finds the rows before any instruction has set a CFA, in functions with a CIE that sets no CFA. For gimli the CFA of
/// these rows is `register 0 + 0`, and instructions may change it.
pub(super) struct CfaSet<'l, 'f> {
    instructions: Iter<'l, 'f>,
    /// The number of the row that the next instruction is for. An instruction that moves the location ends a row.
    row: u64,
    is_set: bool,
    remembered: Vec<bool>,
}

impl<'l, 'f> CfaSet<'l, 'f> {
    /// Starts at the first row of the FDE at `fde`, with its CIE at `cie`.
    pub(super) fn new(listed: &'l Listed<'f>, cie: usize, fde: usize) -> gimli::Result<Self> {
        let of_cie = Self::of_cie(listed, cie)?;
        Ok(Self { instructions: listed.of_fde(fde)?, row: 0, ..of_cie })
    }

    /// Returns whether the CIE at an offset sets a CFA. Returns false if it changes a CFA that is not set.
    pub(super) fn is_set_by_cie(listed: &Listed<'_>, offset: usize) -> bool {
        CfaSet::of_cie(listed, offset).is_ok_and(|of_cie| of_cie.is_set)
    }

    /// Returns the state after the instructions of a CIE.
    fn of_cie(listed: &'l Listed<'f>, offset: usize) -> gimli::Result<Self> {
        let instructions = listed.of_cie(offset)?;
        let mut of_cie = Self { instructions, row: 0, is_set: false, remembered: Vec::new() };
        of_cie.in_row(u64::MAX - 1)?;
        Ok(of_cie)
    }

    /// Returns whether a CFA is set in the row with this number. The numbers must ascend from call to call.
    ///
    /// # Errors
    /// Returns an error if an instruction changes a CFA that is not set.
    pub(super) fn in_row(&mut self, number: u64) -> gimli::Result<bool> {
        use CallFrameInstruction::*;
        while self.row <= number {
            match self.instructions.next() {
                Ok(Some(DefCfa { .. } | DefCfaSf { .. } | DefCfaExpression { .. })) => self.is_set = true,
                Ok(Some(DefCfaRegister { .. } | DefCfaOffset { .. } | DefCfaOffsetSf { .. }))
                    if !self.is_set =>
                {
                    return Err(gimli::Error::CfiInstructionInInvalidContext);
                }
                Ok(Some(RememberState)) => self.remembered.push(self.is_set),
                Ok(Some(RestoreState)) => self.is_set = self.remembered.pop().unwrap_or(self.is_set),
                Ok(Some(AdvanceLoc { .. } | SetLoc { .. })) => self.row += 1,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        Ok(self.is_set)
    }
}
