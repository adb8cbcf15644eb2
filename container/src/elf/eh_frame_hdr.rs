//! Reads `.eh_frame_hdr`: the place of `.eh_frame`, for files without section headers, and the index of its FDEs.
//!
//! | offset | field |
//! |---|---|
//! | 0 | version, 1 |
//! | 1 | encoding of the pointer to `.eh_frame` (`DW_EH_PE_*`) |
//! | 2 | encoding of the count |
//! | 3 | encoding of the table |
//! | 4 | pointer to `.eh_frame` |
//! | 8 | count of FDEs, then the table: per FDE its function's start and its own place |
//!
//! (Linux Standard Base, Core, "Exception Frame Header")

use std::borrow::Cow;

use cfipack_format::Address;
use cfipack_format::widen::{ToU64, ToUsize};
use object::elf::PT_GNU_EH_FRAME;
use object::read::elf::ProgramHeader as _;

use super::headers::Headers;
use crate::error::Error;
use crate::section::Section;

const DW_EH_PE_UDATA4: u8 = 0x03;
const DW_EH_PE_DATAREL_SDATA4: u8 = 0x3b;
const DW_EH_PE_PCREL: u8 = 0x10;
const DW_EH_PE_DATAREL: u8 = 0x30;

/// The index in `.eh_frame_hdr`. Unwinders search it for the FDE of a PC.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FdeIndex {
    /// The address of `.eh_frame_hdr`.
    pub address: Address,
    /// The entries, in the order of the file.
    pub entries: Vec<IndexEntry>,
}

/// An entry of the index: the start of a function, and the FDE that it leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IndexEntry {
    /// The offset of the entry in `.eh_frame_hdr`.
    pub offset: u64,
    /// The start of the function.
    pub start: Address,
    /// The address of the FDE.
    pub fde: Address,
}

/// Reads the index, or returns `None` if the file has no index.
pub(super) fn index(headers: &Headers<'_>) -> Result<Option<FdeIndex>, Error> {
    let Some(header) = find(headers)? else { return Ok(None) };
    let entries = entries(headers, &header).map(Iterator::collect);
    Ok(entries.map(|entries| FdeIndex { address: header.address, entries }))
}

/// Returns `.eh_frame_hdr`.
fn find<'a>(headers: &Headers<'a>) -> Result<Option<Section<'a>>, Error> {
    let segment = headers.segments.iter().find(|s| s.p_type(headers.endian) == PT_GNU_EH_FRAME);
    segment.map(|segment| headers.segment(segment, ".eh_frame_hdr")).transpose()
}

/// Returns `.eh_frame`: the bytes from the address in the header to the end of the last FDE.
pub(super) fn find_eh_frame<'a>(headers: &Headers<'a>) -> Result<Option<Section<'a>>, Error> {
    let Some(header) = find(headers)? else { return Ok(None) };
    let address = eh_frame_address(headers, &header)?;
    let segment = headers.loaded().find(|segment| {
        let start = segment.p_vaddr(headers.endian);
        address.0.checked_sub(start).is_some_and(|offset| offset < segment.p_filesz(headers.endian))
    });
    let Some(segment) = segment else {
        return Err(Error::EhFrameHdr { offset: 4, value: address.0 });
    };
    let Section { address: start, bytes, .. } = headers.segment(segment, ".eh_frame")?;
    let Cow::Borrowed(bytes) = bytes else { return Ok(None) };
    let bytes = bytes.get((address.0 - start.0).to_usize()..).unwrap_or_default();
    let last = entries(headers, &header).and_then(|entries| entries.map(|entry| entry.fde.0).max());
    let last = last.map(|last| last.wrapping_sub(address.0));
    let bytes = Cow::Borrowed(&bytes[..length(headers, bytes, last)]);
    Ok(Some(Section { index: None, name: ".eh_frame".into(), address, bytes }))
}

/// Reads the pointer at offset 4.
fn eh_frame_address(headers: &Headers<'_>, header: &Section<'_>) -> Result<Address, Error> {
    let Some((&[version, encoding, ..], field)) = header.bytes.split_first_chunk::<4>() else {
        return Err(Error::EhFrameHdr { offset: 0, value: header.bytes.len().to_u64() });
    };
    if version != 1 {
        return Err(Error::EhFrameHdr { offset: 0, value: version.into() });
    }
    let endian = headers.arch.endian();
    let four = field.first_chunk().map(|&bytes| endian.u32(bytes));
    let eight = field.first_chunk().map(|&bytes| endian.u64(bytes));
    // The formats of `DW_EH_PE_*` are absptr (0), udata4 (3), udata8 (4), sdata4 (0xb) and sdata8 (0xc).
    let value = match encoding & 0xf {
        0x3 => four.map(u64::from),
        0xb => four.map(|value| i64::from(value.cast_signed()).cast_unsigned()),
        0x0 | 0x4 | 0xc => eight,
        _ => return Err(Error::EhFrameHdr { offset: 1, value: encoding.into() }),
    };
    let value = value.ok_or(Error::EhFrameHdr { offset: 4, value: header.bytes.len().to_u64() })?;
    let base = match encoding & 0xf0 {
        0 => 0,
        DW_EH_PE_PCREL => header.address.0.wrapping_add(4),
        DW_EH_PE_DATAREL => header.address.0,
        _ => return Err(Error::EhFrameHdr { offset: 1, value: encoding.into() }),
    };
    Ok(Address(base.wrapping_add(value)))
}

/// Returns the entries of the table. Linkers only write one kind of table, and this function reads no other: a 4-byte
/// count, then pairs of 4-byte distances from the header's start.
fn entries(headers: &Headers<'_>, header: &Section<'_>) -> Option<impl Iterator<Item = IndexEntry>> {
    let endian = headers.arch.endian();
    let [_, _, DW_EH_PE_UDATA4, DW_EH_PE_DATAREL_SDATA4] = *header.bytes.first_chunk::<4>()? else {
        return None;
    };
    let count = endian.u32(*header.bytes.get(8..)?.first_chunk()?).to_usize();
    let (entries, _) = header.bytes.get(FIRST_ENTRY.to_usize()..)?.as_chunks::<8>();
    let at = move |distance| header.address.offset(endian.u32(distance).cast_signed().into());
    let entries = (FIRST_ENTRY..).step_by(8).zip(entries).take(count);
    Some(entries.map(move |(offset, &[s, t, u, v, a, b, c, d])| IndexEntry {
        offset,
        start: at([s, t, u, v]),
        fde: at([a, b, c, d]),
    }))
}

/// The offset of the first entry of the table.
const FIRST_ENTRY: u64 = 12;

/// Returns the number of bytes up to the end of the last FDE. Without a table, it is the number up to the first
/// terminator (a record of length 0), which linkers need not write. If a record is damaged, it is the number of all
/// bytes.
fn length(headers: &Headers<'_>, bytes: &[u8], last_fde: Option<u64>) -> usize {
    let endian = headers.arch.endian();
    let mut offset = 0;
    while let Some(record) = bytes.get(offset..) {
        let Some(&length) = record.first_chunk() else { break };
        let (header, length) = match (endian.u32(length), record.get(4..12)) {
            (0, _) if last_fde.is_none() => return offset,
            (u32::MAX, Some(&[a, b, c, d, e, f, g, h])) => (12, endian.u64([a, b, c, d, e, f, g, h])),
            (length, _) => (4, length.into()),
        };
        let end =
            usize::try_from(length).ok().and_then(|length| offset.checked_add(header)?.checked_add(length));
        let Some(end) = end.filter(|&end| end <= bytes.len()) else { break };
        if last_fde == Some(offset.to_u64()) {
            return end;
        }
        offset = end;
    }
    bytes.len()
}
