//! The FRE of a row but for the CFA's offset.

use cfipack_format::{Arch, Cfa, Endian, Row, Rule};

use super::fre::Fre;

/// What the FREs of rows look like that differ in the CFA's offset only.
///
/// Only for small, positive offsets, default FDEs and little-endian sections: for nearly all rows
/// there are. The offset is the word behind the info byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// The FRE of offset 0, for offsets up to 0x7f.
    small: ShortFre,
    /// That of offsets up to [`Self::MAX_OFFSET`], without the offset.
    large: ShortFre,
}

/// An FRE of up to eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ShortFre {
    /// Its bytes as a number, the first in the lowest byte.
    pub(super) bytes: u64,
    /// Its length, and 1 in the upper half: what it adds to a [`count of both`](super::track::Track).
    pub(super) step: u64,
}

impl Pattern {
    /// The greatest offset that fits, in bytes.
    pub(super) const MAX_OFFSET: u32 = 0x7fff;
    /// No row's pattern.
    pub(super) const NONE: Self =
        Self { small: ShortFre { bytes: 0, step: 0 }, large: ShortFre { bytes: 0, step: 0 } };

    /// The pattern of a row whose CFA is a register plus an offset.
    pub(super) fn new(arch: Arch, row: &Row) -> Option<Self> {
        let Cfa::Register { register, .. } = row.cfa else { return None };
        if arch.endian() == Endian::Big || row.return_address == Rule::Undefined {
            return None;
        }
        let fre = |offset| {
            let row = Row { cfa: Cfa::Register { register, offset }, ..*row };
            let (bytes, len) = Fre::default(arch, &row).ok()?.as_short()?;
            Some(ShortFre { bytes, step: u64::from(len) | 1 << 32 })
        };
        let (small, mut large) = (fre(0)?, fre(0x80)?);
        large.bytes &= !0xff_ff00;
        Some(Self { small, large })
    }

    /// The FRE with an offset of at most [`Self::MAX_OFFSET`].
    #[inline(always)]
    pub(super) fn fre(&self, offset: u32) -> ShortFre {
        let ShortFre { bytes, step } = if offset < 0x80 { self.small } else { self.large };
        ShortFre { bytes: bytes | u64::from(offset) << 8, step }
    }

    /// The offset that an FRE of this pattern has.
    #[inline]
    pub(super) fn offset(&self, fre: ShortFre) -> u32 {
        let word = (fre.bytes >> 8) as u32;
        // Of equal length, both have words of more than one byte.
        if fre.step == self.large.step { word & 0x7fff } else { word & 0x7f }
    }
}
