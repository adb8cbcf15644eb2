//! Layout `small`: encodes rows as FREs, and drops rows that repeat the row before.

use cfipack_format::sframe::{FdeInfo, FdeType, FreType, Version};
use cfipack_format::{Arch, Cfa, Rule};

use crate::Reason;
use crate::cfi::StackPointer;
use crate::cfi::{Change, Cie, Function, RowSink, State, Stretch};
use crate::sframe::options::Options;
use crate::sframe::rows::fre::{Fre, ShortFre};
use crate::sframe::rows::fres::{Fres, MAX_ROWS};
use crate::sframe::table::entries::Entries;

/// Takes the rows of a function.
#[derive(Debug)]
pub(crate) struct SmallRows<'b, 'e> {
    pub(crate) arch: Arch,
    pub(crate) version: Version,
    /// True if the options allow rows without a caller.
    outermost: bool,
    pub(crate) info: FdeInfo,
    pub(crate) fde_type: FdeType,
    pub(crate) fres: &'b mut Fres,
    pub(crate) entries: &'b mut Entries<'e>,
    /// The function's start.
    pub(crate) start: u64,
    /// The start of the current FDE, from the function's start.
    pub(crate) part: u32,
    /// The type of the current FDE's starts.
    pub(crate) fre_type: FreType,
    /// True if the next FRE follows from the last FRE when only the CFA's offset changes. This needs a default
    /// FDE, and a stack pointer without a rule, because a rule would depend on the CFA.
    offset_is_all: bool,
}

impl<'b, 'e> SmallRows<'b, 'e> {
    pub(crate) fn begin(
        function: &Function<'_>,
        options: &Options,
        fde_type: FdeType,
        size: u32,
        fres: &'b mut Fres,
        entries: &'b mut Entries<'e>,
    ) -> Self {
        let Options { version, outermost, .. } = *options;
        let fre_type = options.layout.fre_type(size);
        fres.begin(fre_type);
        let info = flags(&function.cie, version);
        let (arch, start) = (function.arch(), function.key.0);
        let (part, offset_is_all) = (0, false);
        Self { arch, version, outermost, info, fde_type, fres, entries, start, part, fre_type, offset_is_all }
    }

    /// Ends the current FDE at `end`, from the function's start.
    pub(crate) fn end_part(&mut self, end: u32) -> Result<(), Reason> {
        if self.fres.count() == 0 {
            return Err(Reason::CfaMissing);
        }
        self.fres.narrow();
        let start = self.start.wrapping_add(self.part.into());
        if self.part != 0 {
            self.entries.go_on();
        }
        self.entries.add_later(start, end - self.part, self.fres, self.info, self.fde_type)?;
        self.part = end;
        self.fres.begin(self.fre_type);
        Ok(())
    }
}

impl<'a> RowSink<'a, StackPointer> for SmallRows<'_, '_> {
    #[inline(always)]
    fn row(&mut self, state: &State<'a, StackPointer>, change: Change) -> Result<(), Reason> {
        match self.with_offset(state, change) {
            Some(fre) if self.fres.count() < MAX_ROWS => {
                if self.fres.last() != fre {
                    self.fres.push_short(state.row.start.0 - self.part, fre);
                }
                Ok(())
            }
            _ => self.any_row(state),
        }
    }

    #[inline(always)]
    fn stretch(&mut self, stretch: &mut Stretch<'a>) {
        if !self.offset_is_all {
            return;
        }
        while let Some(step) = stretch.next() {
            if stretch.row_ends(&step) {
                let (location, offset) = stretch.row();
                let Ok(start) = u32::try_from(location) else { break };
                let Some(fre) = self.fres.last().with_cfa_offset(self.arch, offset) else { break };
                if self.fres.last() != fre {
                    if self.fres.count() >= MAX_ROWS {
                        break;
                    }
                    self.fres.push_short(start - self.part, fre);
                }
            }
            stretch.take(step);
        }
    }
}

impl SmallRows<'_, '_> {
    /// Returns the FRE of a row that differs from the row before in the CFA's offset only, if it follows from
    /// the last FRE.
    #[inline(always)]
    fn with_offset(&self, state: &State<'_, StackPointer>, change: Change) -> Option<ShortFre> {
        match (change, state.row.cfa) {
            (Change::CfaOffset, Cfa::Register { offset, .. }) if self.offset_is_all => {
                self.fres.last().with_cfa_offset(self.arch, offset)
            }
            _ => None,
        }
    }

    #[inline(never)]
    fn any_row(&mut self, state: &State<'_, StackPointer>) -> Result<(), Reason> {
        let row = &state.row;
        self.offset_is_all = self.fde_type == FdeType::Default && state.registers.is_unset();
        if !matches!(row.return_address, Rule::Undefined) {
            // There is no rule so far, so there is no row.
            if matches!(row.cfa, Cfa::Undefined) && self.fres.count() == 0 && self.part == 0 {
                return Ok(());
            }
            if !state.registers.is_cfa(self.arch, row) {
                return Err(Reason::StackPointerRule);
            }
        } else if !self.outermost {
            return Err(Reason::ReturnAddressRule);
        }
        let fre = Fre::new(self.arch, self.version, row, self.fde_type)?;
        if !self.fres.repeats(&fre) {
            if self.fres.count() >= self.version.max_fres() {
                self.end_part(row.start.0)?;
            }
            self.fres.push(row.start.0 - self.part, &fre);
        }
        Ok(())
    }
}

/// The FDE flags that hold for the whole function.
pub(crate) fn flags(cie: &Cie<'_>, version: Version) -> FdeInfo {
    let mut info = FdeInfo::empty();
    info.set(FdeInfo::PAUTH_KEY_B, cie.pauth_key_b);
    info.set(FdeInfo::SIGNAL, cie.signal_frame && version.has_signal_frames());
    info
}
