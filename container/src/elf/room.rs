//! Limits of the memory that the sections of a file may take.

use cfipack_format::widen::ToU64;
use object::Endianness;
use object::elf::SectionHeader64;
use object::read::elf::SectionHeader as _;

use super::headers::Headers;
use crate::error::Error;

/// The number of bytes that the compressed sections of a file may become together, for each byte of the file.
///
/// `.debug_frame` of an object whose functions are all alike becomes 250 times as long, but its relocations and
/// its code do not shrink: no file comes near to 64 times its own length. A hostile one could reach 1032.
pub(super) const DECOMPRESSED_PER_BYTE: u64 = 64;

/// The room that is left for the sections that are read at a time.
#[derive(Debug)]
pub(super) struct Room {
    /// Bytes of the file that may still be copied.
    copied: u64,
    /// Bytes that compressed sections may still become.
    decompressed: u64,
}

impl Room {
    /// The room that a file has.
    pub(super) fn of(headers: &Headers<'_>) -> Self {
        let length = headers.bytes.len().to_u64();
        Self { copied: length, decompressed: length.saturating_mul(DECOMPRESSED_PER_BYTE) }
    }

    /// Takes room for a copy of a section. Sections that are copied must not overlap, or a small file could
    /// ask for much memory.
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

    /// Takes room for what a compressed section becomes.
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
