//! The FRE of a row but for the CFA's offset.

use cfipack_format::sframe::Abi;
use cfipack_format::{Arch, Cfa, Endian, Row, Rule};

use crate::sframe::rows::fre::{Fre, ShortFre};

/// The size of an FRE in bytes.
#[inline(always)]
pub(crate) fn bytes_of(fre: u64) -> u64 {
    fre >> 56
}

/// The common form of FREs of rows that differ in the CFA's offset only.
///
/// Only for small, positive offsets, default FDEs and little-endian sections: for nearly all
/// rows. The offset is the word after the info byte. An FRE is a number: up to seven bytes, the
/// first in the lowest, and in the highest how many they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// The FRE of offset 0, for offsets up to 0x7f.
    small: u64,
    /// The pattern of offsets up to [`Self::MAX_OFFSET`], without the offset.
    large: u64,
}

impl Pattern {
    /// The greatest offset that fits, in bytes.
    pub(crate) const MAX_OFFSET: u32 = 0x7fff;
    /// No row's pattern.
    pub(crate) const NONE: Self = Self { small: 0, large: 0 };

    /// The pattern of a row whose CFA is a register plus an offset.
    pub(crate) fn new(arch: Arch, row: &Row) -> Option<Self> {
        let Cfa::Register { register, .. } = row.cfa else { return None };
        let abi = Abi::for_arch(arch)?;
        if arch.endian() == Endian::Big || row.return_address == Rule::Undefined {
            return None;
        }
        let fre = |offset| {
            let row = Row { cfa: Cfa::Register { register, offset }, ..*row };
            Fre::default(abi, &row).ok()?.as_short().map(ShortFre::number)
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

    /// The offset that an FRE of this pattern has.
    #[inline]
    pub(crate) fn offset(&self, fre: u64) -> u32 {
        let word = (fre >> 8) as u32;
        // Of the same kind, both have words of more than one byte.
        if fre as u8 == self.large as u8 { word & 0x7fff } else { word & 0x7f }
    }
}
