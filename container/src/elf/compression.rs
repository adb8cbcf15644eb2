//! Compressed sections (`SHF_COMPRESSED`): of what is read here only `.debug_frame` can be one.

use std::borrow::Cow;

use object::Endianness;
use object::elf::{ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SectionHeader64};
use object::read::elf::SectionHeader as _;
use object::read::{CompressedData, CompressionFormat};

use super::headers::Headers;
use crate::Error;

/// How many bytes one compressed byte may claim to become. zlib reaches 1032 at most, and call
/// frame information comes nowhere near it: more is refused before memory is taken.
const MOST: u64 = 1032;

/// What a compressed section becomes.
pub(super) fn decompress<'a>(
    headers: &Headers<'a>,
    index: usize,
    header: &SectionHeader64<Endianness>,
) -> Result<Cow<'a, [u8]>, Error> {
    let section = headers.name_for_error(index);
    let damaged = Error::Compressed { section, size: 0 };
    let (compression, offset, size) =
        header.compression(headers.endian, headers.bytes).ok().flatten().ok_or(damaged)?;
    let uncompressed_size = compression.ch_size.get(headers.endian);
    let refused = Error::Compressed { section, size: uncompressed_size };
    let format = match compression.ch_type.get(headers.endian) {
        ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return Err(refused),
    };
    let end = offset.checked_add(size).ok_or(refused)?;
    let data = headers.bytes.get(offset as usize..end as usize).ok_or(refused)?;
    if uncompressed_size > size.saturating_mul(MOST) {
        return Err(refused);
    }
    CompressedData { format, data, uncompressed_size }.decompress().map_err(|_| refused)
}
