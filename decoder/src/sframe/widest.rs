//! The widest row of a function: the row for the most PCs.

use cfipack_format::sframe::{Fde, FdeType, FreInfo, FreType};
use cfipack_format::widen::ToUsize;

use super::Section;

/// The place and the end of a function's widest row, in a single word of an [`Index`](super::Index).
///
/// A lookup that hits the widest row needs no scan over the FREs. This is so for 76 % of random PCs in
/// librustc_driver, and for 83 % in libLLVM.
///
/// | bits | meaning |
/// |---|---|
/// | 0, 1 | the [`FreType`] |
/// | 2 to 14 | where the row's FRE lies, in bytes from the FDE's FRE offset |
/// | 15 to 31 | where the row ends, in bytes from the function's start; 0 if no row is known |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Widest(pub u32);

impl Widest {
    /// No widest row is known: the row ends at 0.
    pub const NONE: Self = Self(0);

    const MAX_AT: usize = 0x1fff;
    const MAX_END: u32 = 0x1_ffff;

    /// How many rows [`Section::widest_row`] looks at. All functions may share their FREs, and building an
    /// index must take time in proportion to the section.
    const MAX_ROWS: u32 = 256;

    /// Returns the type of the function's FREs.
    #[inline]
    pub fn fre_type(self) -> FreType {
        match self.0 & 3 {
            0 => FreType::Addr1,
            1 => FreType::Addr2,
            _ => FreType::Addr4,
        }
    }

    /// Returns the offset of the FRE, in bytes from the FDE's FRE offset.
    #[inline]
    pub fn at(self) -> u32 {
        self.0 >> 2 & Self::MAX_AT as u32
    }

    /// Returns the function offset where the row ends. The row covers every PC from its start to here.
    #[inline]
    pub fn end(self) -> u32 {
        self.0 >> 15
    }
}

impl Section<'_> {
    /// Returns the widest row of a DEFAULT function that is neither a PC-mask function nor a signal frame. A
    /// row counts only if all FREs up to the next row can be read and are in order, so a scan finds the same
    /// row.
    pub(super) fn widest_row(&self, index: usize, fde: &Fde) -> Option<Widest> {
        let body = self.body(index, fde).ok()?;
        let is_signal_frame = body.is_signal_frame(self.version());
        if body.is_pc_mask() || is_signal_frame || body.fde_type == FdeType::Flex {
            return None;
        }
        let first = self.fres.len() - body.fres.len() - fde.fre_off.to_usize();
        let (mut widest, mut width) = (Widest::NONE, 0);
        let (mut at, mut before) = (0, None);
        for row in 0..=body.num_fres.min(Widest::MAX_ROWS) {
            let (start, info) = if row == body.num_fres {
                (fde.size, FreInfo::OUTERMOST)
            } else {
                match self.head_at(&body, at) {
                    Some((start, info)) if before.is_none_or(|(_, before)| before <= start) => (start, info),
                    _ => break,
                }
            };
            let Some(fre_len) = info.fre_len() else { break };
            if let Some((at, before)) = before {
                let end = start.min(fde.size).min(Widest::MAX_END);
                if at <= Widest::MAX_AT && end.saturating_sub(before) > width {
                    width = end - before;
                    widest = Widest(body.fre_type as u32 | (at as u32) << 2 | end << 15);
                }
            }
            before = Some((first + at, start));
            at += body.fre_type.width() + fre_len;
        }
        Some(widest)
    }
}
