//! Patterns: FREs of rows, except for the offset of the CFA.

use cfipack_format::sframe::{Abi, Version};
use cfipack_format::{Arch, Cfa, Endian, Row, Rule};

use crate::sframe::rows::fre::{Fre, ShortFre};

/// The size of an FRE in bytes.
#[inline(always)]
pub(crate) fn bytes_of(fre: u64) -> u64 {
    fre >> 56
}

/// The common form of the FREs of rows that differ only in the CFA's offset.
///
/// A pattern exists for small, positive offsets in default FDEs of little-endian sections, so for nearly all
/// rows. The offset is the word after the info byte. An FRE is a number of up to seven bytes: the first byte
/// is the lowest. The highest byte of the number counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// The FRE with offset 0, for offsets up to 0x7f.
    small: u64,
    /// The FRE with offset 0, for larger offsets up to [`Self::MAX_OFFSET`].
    large: u64,
}

impl Pattern {
    /// The greatest offset that fits, in bytes.
    pub(crate) const MAX_OFFSET: u32 = 0x7fff;
    /// A pattern that no row has.
    pub(crate) const NONE: Self = Self { small: 0, large: 0 };

    /// Returns the pattern of a row whose CFA is a register plus an offset.
    pub(crate) fn new(arch: Arch, row: &Row) -> Option<Self> {
        let Cfa::Register { register, .. } = row.cfa else { return None };
        let abi = Abi::for_arch(arch)?;
        if arch.endian() == Endian::Big || row.return_address == Rule::Undefined {
            return None;
        }
        let fre = |offset| {
            let row = Row { cfa: Cfa::Register { register, offset }, ..*row };
            Fre::default(abi, Version::DEFAULT, &row).ok()?.as_short().map(ShortFre::number)
        };
        Some(Self { small: fre(0)?, large: fre(0x80)? & !0xff_ff00 })
    }

    /// The FRE with an offset of at most [`Self::MAX_OFFSET`].
    #[inline(always)]
    pub(crate) fn fre(&self, offset: u32) -> u64 {
        let pattern = if offset < 0x80 { self.small } else { self.large };
        pattern | u64::from(offset) << 8
    }

    /// The FRE with an offset of at most 0x7f.
    #[inline(always)]
    pub(crate) fn small_fre(&self, offset: u64) -> u64 {
        self.small | offset << 8
    }

    /// Returns the offset in an FRE of this pattern.
    #[inline]
    pub(crate) fn offset(&self, fre: u64) -> u32 {
        let word = (fre >> 8) as u32;
        // If both patterns have the same info byte, both have offsets of two bytes.
        if fre as u8 == self.large as u8 { word & 0x7fff } else { word & 0x7f }
    }
}
