//! Layout `small`: rows become FREs, those that repeat the one before are dropped.

use cfipack_format::sframe::{FdeInfo, FdeType, FreType, Version};
use cfipack_format::{Arch, Cfa, Rule};

use super::builder::Entries;
use super::fre::{Fre, Fres};
use super::stack_pointer::StackPointer;
use crate::Reason;
use crate::cfi::{Function, RowSink, State};

/// Takes the rows of one function.
#[derive(Debug)]
pub(super) struct SmallRows<'b> {
    pub(super) arch: Arch,
    pub(super) version: Version,
    pub(super) info: FdeInfo,
    pub(super) fde_type: FdeType,
    pub(super) fres: &'b mut Fres,
    pub(super) entries: &'b mut Entries,
    /// The function's start.
    pub(super) start: u64,
    /// Where the FDE in the making starts, from the function's start.
    pub(super) part: u32,
    /// Starts that the FDE in the making has room for.
    pub(super) fre_type: FreType,
}

impl<'b> SmallRows<'b> {
    pub(super) fn begin(
        function: &Function<'_>,
        version: Version,
        fde_type: FdeType,
        size: u32,
        fres: &'b mut Fres,
        entries: &'b mut Entries,
    ) -> Self {
        let fre_type = FreType::for_start(size.saturating_sub(1));
        fres.begin(fre_type);
        let info = flags(function, version);
        let (arch, start) = (function.arch(), function.start.0);
        Self { arch, version, info, fde_type, fres, entries, start, part: 0, fre_type }
    }

    /// Ends the FDE in the making at `end`, from the function's start.
    pub(super) fn end_part(&mut self, end: u32) -> Result<(), Reason> {
        if self.fres.count() == 0 {
            return Err(Reason::CfaMissing);
        }
        self.fres.narrow();
        let block = self.entries.blocks.add(self.fres, self.info, self.fde_type, 0)?;
        let start = self.start.wrapping_add(self.part.into());
        self.entries.push(start, end - self.part, block);
        self.part = end;
        self.fres.begin(self.fre_type);
        Ok(())
    }
}

impl<'a> RowSink<'a, StackPointer> for SmallRows<'_> {
    #[inline]
    fn row(&mut self, state: &State<'a, StackPointer>) -> Result<(), Reason> {
        let row = &state.row;
        if row.return_address != Rule::Undefined {
            if row.cfa == Cfa::Undefined && self.fres.count() == 0 && self.part == 0 {
                // Nothing said yet: no row answers here.
                return Ok(());
            }
            if !state.registers.is_cfa(self.arch, row) {
                return Err(Reason::StackPointerRule);
            }
        }
        let fre = Fre::new(self.arch, row, self.fde_type)?;
        if self.fres.repeats(&fre) {
            return Ok(());
        }
        // Version 3 counts an FDE's rows in 16 bits.
        if self.fres.count() == u16::MAX.into() && self.version == Version::V3 {
            self.end_part(row.start.0)?;
        }
        self.fres.push(row.start.0 - self.part, &fre);
        Ok(())
    }
}

/// What an FDE says of the whole function.
pub(super) fn flags(function: &Function<'_>, version: Version) -> FdeInfo {
    let mut info = FdeInfo::empty();
    info.set(FdeInfo::PAUTH_KEY_B, function.cie.pauth_key_b);
    info.set(FdeInfo::SIGNAL, function.cie.signal_frame && version == Version::V3);
    info
}
