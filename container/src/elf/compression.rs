//! Decompresses sections (`SHF_COMPRESSED`, or `.zdebug_*` by name). Of the sections that this crate needs, only
//! debug sections such as `.debug_frame` can be compressed.

use std::borrow::Cow;

use cfipack_format::widen::{ToU64, ToUsize};
use object::Endianness;
use object::elf::{ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SectionHeader64};
use object::read::elf::SectionHeader as _;
use object::read::{CompressedData, CompressionFormat};

use super::headers::Headers;
use super::room::Room;
use crate::error::{Error, SectionName};

/// The greatest number of bytes that a compressed byte may become. Zlib reaches 1032. [`Room`] has the limit
/// for all sections of a file together.
const MOST: u64 = 1032;

/// Decompresses a section with the flag `SHF_COMPRESSED`.
pub(super) fn decompress<'a>(
    headers: &Headers<'a>,
    index: usize,
    header: &SectionHeader64<Endianness>,
    room: &mut Room,
) -> Result<Cow<'a, [u8]>, Error> {
    let section = headers.name_for_error(index);
    let Ok(Some((compression, offset, size))) = header.compression(headers.endian, headers.bytes) else {
        return Err(Error::CompressionHeader { section, size: header.sh_size(headers.endian) });
    };
    let uncompressed_size = compression.ch_size.get(headers.endian);
    let refused = Error::Compressed { section, size: uncompressed_size };
    let format = match compression.ch_type.get(headers.endian) {
        ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        value => return Err(Error::CompressionType { section, value: value.0 }),
    };
    let end = offset.checked_add(size).ok_or(refused)?;
    let data = headers.bytes.get(offset.to_usize()..end.to_usize()).ok_or(refused)?;
    check(data, uncompressed_size, section)?;
    room.decompress(headers, index, uncompressed_size)?;
    inflate(format, data, uncompressed_size, section)
}

/// Decompresses a section in the format that was used before `SHF_COMPRESSED` (`.zdebug_frame`): "ZLIB", the size as
/// 8 bytes in big-endian order, and a zlib stream.
pub(super) fn decompress_by_name<'a>(
    headers: &Headers<'a>,
    index: usize,
    room: &mut Room,
) -> Result<Cow<'a, [u8]>, Error> {
    let section = headers.name_for_error(index);
    let bytes = headers.section_bytes(index)?;
    let headless = Error::CompressionHeader { section, size: bytes.len().to_u64() };
    let (size, data) =
        bytes.strip_prefix(b"ZLIB").and_then(|rest| rest.split_first_chunk()).ok_or(headless)?;
    let size = u64::from_be_bytes(*size);
    check(data, size, section)?;
    room.decompress(headers, index, size)?;
    inflate(CompressionFormat::Zlib, data, size, section)
}

/// Refuses a size that these compressed bytes cannot have.
fn check(data: &[u8], size: u64, section: SectionName) -> Result<(), Error> {
    if size > data.len().to_u64().saturating_mul(MOST) {
        return Err(Error::Compressed { section, size });
    }
    Ok(())
}

fn inflate(
    format: CompressionFormat,
    data: &[u8],
    uncompressed_size: u64,
    section: SectionName,
) -> Result<Cow<'_, [u8]>, Error> {
    let refused = Error::Compressed { section, size: uncompressed_size };
    #[cfg(feature = "compression")]
    if format == CompressionFormat::Zlib {
        return inflate_zlib(data, uncompressed_size.to_usize()).map(Cow::Owned).ok_or(refused);
    }
    CompressedData { format, data, uncompressed_size }.decompress().map_err(|_| refused)
}

/// Decompresses a zlib stream. Returns `None` if the stream has more or fewer than `size` bytes.
#[cfg(feature = "compression")]
fn inflate_zlib(data: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // The stream only ends before this buffer is full.
    bytes.try_reserve_exact(size.checked_add(1)?).ok()?;
    let mut decompress = flate2::Decompress::new(true);
    let status = decompress.decompress_vec(data, &mut bytes, flate2::FlushDecompress::Finish).ok()?;
    (status == flate2::Status::StreamEnd && bytes.len() == size).then_some(bytes)
}
