//! Second-level pages.

use super::{bytes_of, half, word};
use crate::ImageOffset;
use crate::compact_unwind::Encoding;

/// The size of an encoding in a palette, in bytes.
pub const ENCODING_SIZE: usize = 4;

/// The greatest number of encodings that the entries of a compressed page can name, common and local together.
pub const MAX_ENCODINGS: usize = 256;

/// The greatest distance of a compressed entry from its page's first function, in bytes.
pub const MAX_COMPRESSED_OFFSET: u32 = 0x00ff_ffff;

/// The kind of a page, which is its first word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageKind {
    /// `UNWIND_SECOND_LEVEL_REGULAR`: an entry is 8 bytes.
    Regular = 2,
    /// `UNWIND_SECOND_LEVEL_COMPRESSED`: an entry is 4 bytes, its encoding in a palette.
    Compressed = 3,
}

impl PageKind {
    /// Returns the kind with this number.
    #[inline]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            2 => Some(Self::Regular),
            3 => Some(Self::Compressed),
            _ => None,
        }
    }

    /// Returns the number of the page's kind. Every page starts with it.
    #[inline]
    pub fn read(b: &[u8; CompressedPage::SIZE]) -> u32 {
        word(b, 0)
    }
}

/// The header of a regular page: `unwind_info_regular_second_level_page_header`.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | kind, 2 |
/// | 4 | u16 | offset of the entries in the page |
/// | 6 | u16 | number of entries |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegularPage {
    /// Offset of the entries from the page's start.
    pub entries_off: u16,
    /// Number of entries.
    pub entries_count: u16,
}

impl RegularPage {
    /// Bytes on disk.
    pub const SIZE: usize = 8;

    /// Reads the fields after the kind.
    #[inline]
    pub fn read(b: &[u8; Self::SIZE]) -> Self {
        Self { entries_off: half(b, 4), entries_count: half(b, 6) }
    }

    /// Returns the bytes of the header, including the kind.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[PageKind::Regular as u32, pack(self.entries_off, self.entries_count)])
    }
}

/// The header of a compressed page: `unwind_info_compressed_second_level_page_header`.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | kind, 3 |
/// | 4 | u16 | offset of the entries in the page |
/// | 6 | u16 | number of entries |
/// | 8 | u16 | offset of the page's own encodings in the page |
/// | 10 | u16 | number of own encodings |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CompressedPage {
    /// Offset of the entries from the page's start.
    pub entries_off: u16,
    /// Number of entries.
    pub entries_count: u16,
    /// Offset of the local palette from the page's start.
    pub encodings_off: u16,
    /// Number of encodings in the local palette.
    pub encodings_count: u16,
}

impl CompressedPage {
    /// Bytes on disk.
    pub const SIZE: usize = 12;

    /// Reads the fields after the kind.
    #[inline]
    pub fn read(b: &[u8; Self::SIZE]) -> Self {
        Self {
            entries_off: half(b, 4),
            entries_count: half(b, 6),
            encodings_off: half(b, 8),
            encodings_count: half(b, 10),
        }
    }

    /// Returns the bytes of the header, including the kind.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[
            PageKind::Compressed as u32,
            pack(self.entries_off, self.entries_count),
            pack(self.encodings_off, self.encodings_count),
        ])
    }
}

/// Packs two half words into a word, the first in the low half.
const fn pack(first: u16, second: u16) -> u32 {
    first as u32 | (second as u32) << 16
}

/// An entry of a regular page, 8 bytes.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | image offset of the function |
/// | 4 | u32 | encoding |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegularEntry {
    /// Start of the function.
    pub function: ImageOffset,
    /// The encoding that describes how to unwind the function.
    pub encoding: Encoding,
}

impl RegularEntry {
    /// Bytes on disk.
    pub const SIZE: usize = 8;

    /// Reads an entry.
    #[inline]
    pub fn read(b: &[u8; Self::SIZE]) -> Self {
        Self { function: ImageOffset(word(b, 0)), encoding: Encoding(word(b, 4)) }
    }

    /// Returns the bytes of the entry.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[self.function.0, self.encoding.0])
    }
}

/// An entry of a compressed page.
///
/// | bits | meaning |
/// |---|---|
/// | 0 to 23 | bytes from the page's [first function](super::IndexEntry::function) |
/// | 24 to 31 | number of the encoding: first the common palette's are counted, then the page's own |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CompressedEntry(pub u32);

impl CompressedEntry {
    /// Bytes on disk, a little-endian word.
    pub const SIZE: usize = 4;

    /// Creates an entry. Returns `None` if the function lies beyond [`MAX_COMPRESSED_OFFSET`].
    #[inline]
    pub const fn new(function_off: u32, encoding_index: u8) -> Option<Self> {
        if function_off > MAX_COMPRESSED_OFFSET {
            return None;
        }
        Some(Self((encoding_index as u32) << 24 | function_off))
    }

    /// Reads an entry.
    #[inline]
    pub const fn read(b: &[u8; Self::SIZE]) -> Self {
        Self(u32::from_le_bytes(*b))
    }

    /// Returns the bytes of the entry.
    #[inline]
    pub const fn write(self) -> [u8; Self::SIZE] {
        self.0.to_le_bytes()
    }

    /// Returns the distance from the page's first function in bytes.
    #[inline]
    pub const fn function_off(self) -> u32 {
        self.0 & MAX_COMPRESSED_OFFSET
    }

    /// Returns the number of the encoding. The common encodings come first.
    #[inline]
    pub const fn encoding_index(self) -> u8 {
        (self.0 >> 24) as u8
    }
}
