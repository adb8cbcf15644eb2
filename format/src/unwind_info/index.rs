//! The index of second-level pages, and the index of LSDAs.

use super::{bytes_of, word};
use crate::ImageOffset;

/// An entry of the index, for a second-level page or the sentinel: `unwind_info_section_header_index_entry`.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | image offset of the page's first function |
/// | 4 | u32 | offset of the page; 0 in the sentinel |
/// | 8 | u32 | offset of the page's first entry in the LSDA index |
///
/// The sentinel's function is the end of the code that the table covers, and the sentinel's LSDA offset is the
/// end of the LSDA index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexEntry {
    /// The first function of the page. The entries of a compressed page are relative to it.
    pub function: ImageOffset,
    /// Offset of the page in the section.
    pub page_off: u32,
    /// The offset of the first LSDA entry whose function is not below this page's function.
    pub lsda_off: u32,
}

impl IndexEntry {
    /// Bytes on disk.
    pub const SIZE: usize = 12;

    /// Reads an entry.
    #[inline]
    pub fn read(b: &[u8; Self::SIZE]) -> Self {
        Self { function: ImageOffset(word(b, 0)), page_off: word(b, 4), lsda_off: word(b, 8) }
    }

    /// Returns the bytes of the entry.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[self.function.0, self.page_off, self.lsda_off])
    }
}

/// The LSDA of a function, 8 bytes: `unwind_info_section_header_lsda_index_entry`.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | image offset of the function: exactly the start of its entry |
/// | 4 | u32 | image offset of the LSDA |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(description = "An LSDA record."))]
pub struct LsdaEntry {
    /// Start of the function's entry.
    pub function: ImageOffset,
    /// The language-specific data area.
    pub lsda: ImageOffset,
}

impl LsdaEntry {
    /// Bytes on disk.
    pub const SIZE: usize = 8;

    /// Reads an entry.
    #[inline]
    pub fn read(b: &[u8; Self::SIZE]) -> Self {
        Self { function: ImageOffset(word(b, 0)), lsda: ImageOffset(word(b, 4)) }
    }

    /// Returns the bytes of the entry.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[self.function.0, self.lsda.0])
    }
}
