//! The header of `__unwind_info`.

use super::{bytes_of, word};

/// The only version of the format.
pub const VERSION: u32 = 1;

/// The greatest number of personalities that the two bits of an encoding can name.
pub const MAX_PERSONALITIES: usize = 3;

/// The size of a personality in bytes. It is the image offset (u32) of a pointer slot that holds the routine's
/// address.
pub const PERSONALITY_SIZE: usize = 4;

/// The header, 28 bytes: `unwind_info_section_header`.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u32 | version, 1 |
/// | 4 | u32 | offset of the common encodings (u32 each) |
/// | 8 | u32 | number of common encodings |
/// | 12 | u32 | offset of the personalities (u32 each) |
/// | 16 | u32 | number of personalities |
/// | 20 | u32 | offset of the index (12 bytes an entry) |
/// | 24 | u32 | number of index entries, the sentinel included |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Version as stored.
    pub version: u32,
    /// Offset of the common encodings.
    pub common_off: u32,
    /// Number of common encodings.
    pub common_count: u32,
    /// Offset of the personalities.
    pub personalities_off: u32,
    /// Number of personalities.
    pub personalities_count: u32,
    /// Offset of the index.
    pub index_off: u32,
    /// Number of index entries: pages plus one, the sentinel.
    pub index_count: u32,
}

impl Header {
    /// Bytes on disk.
    pub const SIZE: usize = 28;

    /// Reads the header.
    pub fn read(b: &[u8; Self::SIZE]) -> Self {
        Self {
            version: word(b, 0),
            common_off: word(b, 4),
            common_count: word(b, 8),
            personalities_off: word(b, 12),
            personalities_count: word(b, 16),
            index_off: word(b, 20),
            index_count: word(b, 24),
        }
    }

    /// Returns the bytes of the header.
    pub fn write(&self) -> [u8; Self::SIZE] {
        bytes_of(&[
            self.version,
            self.common_off,
            self.common_count,
            self.personalities_off,
            self.personalities_count,
            self.index_off,
            self.index_count,
        ])
    }
}
