//! The index of second-level pages, and the index of LSDAs.

use super::{bytes_of, word};
use crate::ImageOffset;

/// One second-level page, or the sentinel: `unwind_info_section_header_index_entry`.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | image offset of the page's first function |
/// | 4 | u32 | offset of the page; 0 in the sentinel |
/// | 8 | u32 | offset of the page's first entry in the LSDA index |
///
/// The sentinel's function is the end of the code that the table covers, and its LSDA offset the
/// end of the LSDA index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexEntry {
    /// First function of the page; what a compressed page counts its functions from.
    pub function: ImageOffset,
    /// Offset of the page in the section.
    pub page_off: u32,
    /// Offset of the first LSDA entry whose function is not below this page's.
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

    /// The entry's bytes.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[self.function.0, self.page_off, self.lsda_off])
    }
}

/// One function's LSDA, 8 bytes: `unwind_info_section_header_lsda_index_entry`.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | image offset of the function: exactly the start of its entry |
/// | 4 | u32 | image offset of the LSDA |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

    /// The entry's bytes.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[self.function.0, self.lsda.0])
    }
}
