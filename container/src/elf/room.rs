//! Limits on the memory that the sections of a file may take.

use cfipack_format::widen::ToU64;
use object::Endianness;
use object::elf::SectionHeader64;
use object::read::elf::SectionHeader as _;

use super::headers::Headers;
use crate::error::Error;

/// How many bytes all compressed sections together may become, for each byte of the file.
///
/// No real file comes near this limit. The `.debug_frame` of an object with many equal functions grows by a factor of
/// 250, but the object's relocations and code do not compress as well. A hostile file could reach a factor of 1032.
pub(super) const DECOMPRESSED_PER_BYTE: u64 = 64;

/// The bytes that may still be copied or decompressed while sections are read.
#[derive(Debug)]
pub(super) struct Room {
    /// The number of bytes of the file that may still be copied.
    copied: u64,
    /// The number of bytes that compressed sections may still become.
    decompressed: u64,
}

impl Room {
    /// Returns the limits for a file.
    pub(super) fn for_file(headers: &Headers<'_>) -> Self {
        let length = headers.bytes.len().to_u64();
        Self { copied: length, decompressed: length.saturating_mul(DECOMPRESSED_PER_BYTE) }
    }

    /// Reserves memory for a copy of a section. All copies together may not be longer than the file, or a small file
    /// with overlapping sections could ask for many times its size.
    pub(super) fn copy(
        &mut self,
        headers: &Headers<'_>,
        index: usize,
        header: &SectionHeader64<Endianness>,
    ) -> Result<(), Error> {
        let size = header.sh_size(headers.endian);
        self.copied = self.copied.checked_sub(size).ok_or_else(|| Error::SectionsOverlap {
            section: headers.name_for_error(index),
            offset: header.sh_offset(headers.endian),
            size,
        })?;
        Ok(())
    }

    /// Reserves memory for the decompressed bytes of a section.
    pub(super) fn decompress(&mut self, headers: &Headers<'_>, index: usize, size: u64) -> Result<(), Error> {
        let room = self.decompressed;
        self.decompressed = room.checked_sub(size).ok_or_else(|| Error::CompressedSize {
            section: headers.name_for_error(index),
            size,
            room,
        })?;
        Ok(())
    }
}
