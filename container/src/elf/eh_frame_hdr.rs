//! Reads `.eh_frame_hdr`: the place of `.eh_frame`, as unwinders find it, and the index of its FDEs.
//!
//! | offset | field |
//! |---|---|
//! | 0 | version, 1 |
//! | 1 | encoding of the pointer to `.eh_frame` (`DW_EH_PE_*`) |
//! | 2 | encoding of the count |
//! | 3 | encoding of the table |
//! | 4 | pointer to `.eh_frame`, 4 or 8 bytes |
//! | 8 or 12 | count of FDEs, then the table: per FDE its function's start and its own place |
//!
//! (Linux Standard Base, Core, "Exception Frame Header")

use std::borrow::Cow;

use cfipack_cfi as cfi;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Endian, SectionOffset};
use object::elf::PT_GNU_EH_FRAME;
use object::read::elf::ProgramHeader as _;

use super::file::Elf;
use super::headers::Headers;
use crate::error::Error;
use crate::section::Section;

const DW_EH_PE_UDATA4: u8 = 0x03;
const DW_EH_PE_PCREL: u8 = 0x10;
const DW_EH_PE_DATAREL: u8 = 0x30;
const DW_EH_PE_OMIT: u8 = 0xff;

/// The index in `.eh_frame_hdr`. Unwinders search it for the FDE of a PC.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FdeIndex {
    /// The address of `.eh_frame_hdr`.
    pub address: Address,
    /// The address of `.eh_frame`. It is `None` if the pointer to it is omitted or damaged.
    pub eh_frame: Option<Address>,
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

/// `.eh_frame_hdr`, which the program header `PT_GNU_EH_FRAME` leads to.
pub(super) struct EhFrameHdr<'a> {
    bytes: Cow<'a, [u8]>,
    address: Address,
}

impl<'a> EhFrameHdr<'a> {
    /// Finds `.eh_frame_hdr`. Returns `None` if the file has none: it has no program header for it, or tools have removed
    /// its bytes and kept the program header (`objcopy --only-keep-debug`).
    pub(super) fn find(elf: &Elf<'a>) -> Result<Option<Self>, Error> {
        let headers = &elf.headers;
        let Some(segment) = headers.segments.iter().find(|s| s.p_type(headers.endian) == PT_GNU_EH_FRAME)
        else {
            return Ok(None);
        };
        let address = Address(segment.p_vaddr(headers.endian));
        let is_there = headers.sections.is_empty() || elf.loaded_section(address).is_some();
        if segment.p_filesz(headers.endian) == 0 || !is_there {
            return Ok(None);
        }
        let Section { bytes, .. } = headers.segment(segment, ".eh_frame_hdr")?;
        Ok(Some(Self { bytes, address }))
    }

    /// Returns the index of FDEs, or `None` if there is none.
    pub(super) fn index(&self, headers: &Headers<'_>) -> Option<FdeIndex> {
        let eh_frame = self.eh_frame(headers).ok().flatten();
        Some(FdeIndex { address: self.address, eh_frame, entries: self.entries(headers)?.collect() })
    }

    /// Returns `.eh_frame`, which starts at `address`: the bytes from there to the end of its records. Other data may
    /// follow in the same section.
    pub(super) fn section(&self, elf: &Elf<'a>, address: Address) -> Result<Option<Section<'a>>, Error> {
        let Some((name, bytes)) = rest_of_section(elf, address)? else { return Ok(None) };
        let section = cfi::Section::new(cfi::SectionKind::EhFrame, bytes, address, elf.headers.arch);
        let last = self.entries(&elf.headers).and_then(|entries| entries.map(|entry| entry.fde.0).max());
        let last = last.map(|last| last.wrapping_sub(address.0));
        let bytes = &bytes[..length(&section, last)];
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        Ok(Some(Section { index: None, name: name.into(), address, bytes: Cow::Borrowed(bytes) }))
    }

    /// Returns the entries of the table: pairs of distances from the header's start. Linkers write distances of 4 bytes. If
    /// these do not reach, lld 23 writes distances of 8 bytes, and an 8-byte pointer to `.eh_frame`.
    fn entries(&self, headers: &Headers<'_>) -> Option<impl Iterator<Item = IndexEntry>> {
        let endian = headers.arch.endian();
        let [_, pointer, DW_EH_PE_UDATA4, table] = *self.bytes.first_chunk::<4>()? else { return None };
        let width = size(table).filter(|_| table & 0xf0 == DW_EH_PE_DATAREL)?;
        let (_, rest) = self.bytes.split_at_checked(4 + size(pointer).unwrap_or(4))?;
        let (&count, rest) = rest.split_first_chunk()?;
        let first = (self.bytes.len() - rest.len()).to_u64();
        let at = move |bytes: &[u8]| Some(Address(self.address.0.wrapping_add(value(bytes, table, endian)?)));
        let pairs = rest.chunks_exact(2 * width).take(endian.u32(count).to_usize());
        Some((first..).step_by(2 * width).zip(pairs).filter_map(move |(offset, pair)| {
            let (start, fde) = pair.split_at(width);
            Some(IndexEntry { offset, start: at(start)?, fde: at(fde)? })
        }))
    }

    /// Returns the address of `.eh_frame`, from the pointer at offset 4, or `None` if the pointer is omitted.
    pub(super) fn eh_frame(&self, headers: &Headers<'_>) -> Result<Option<Address>, Error> {
        let Self { bytes, address } = self;
        let Some((&[version, encoding, ..], field)) = bytes.split_first_chunk::<4>() else {
            return Err(Error::EhFrameHdr { offset: 0, value: bytes.len().to_u64() });
        };
        if version != 1 {
            return Err(Error::EhFrameHdr { offset: 0, value: version.into() });
        }
        if encoding == DW_EH_PE_OMIT {
            return Ok(None);
        }
        if size(encoding).is_none() {
            return Err(Error::EhFrameHdr { offset: 1, value: encoding.into() });
        }
        let value = value(field, encoding, headers.arch.endian())
            .ok_or(Error::EhFrameHdr { offset: 4, value: bytes.len().to_u64() })?;
        let base = match encoding & 0xf0 {
            0 => 0,
            DW_EH_PE_PCREL => address.0.wrapping_add(4),
            DW_EH_PE_DATAREL => address.0,
            _ => return Err(Error::EhFrameHdr { offset: 1, value: encoding.into() }),
        };
        Ok(Some(Address(base.wrapping_add(value))))
    }
}

/// Returns the size in bytes of a value with this encoding.
fn size(encoding: u8) -> Option<usize> {
    // The formats of `DW_EH_PE_*` are absptr (0), udata4 (3), udata8 (4), sdata4 (0xb) and sdata8 (0xc).
    match encoding & 0xf {
        0x3 | 0xb => Some(4),
        0x0 | 0x4 | 0xc => Some(8),
        _ => None,
    }
}

/// Reads a value from the start of `bytes`. A negative value wraps.
fn value(bytes: &[u8], encoding: u8, endian: Endian) -> Option<u64> {
    if size(encoding)? == 8 {
        return bytes.first_chunk().map(|&bytes| endian.u64(bytes));
    }
    let value = endian.u32(*bytes.first_chunk()?);
    let is_signed = encoding & 0x8 != 0;
    Some(if is_signed { i64::from(value.cast_signed()).cast_unsigned() } else { value.into() })
}

/// Returns the bytes from the start of `.eh_frame` at `address` to the end of the section around it, and a name for
/// messages. Without a section there, the segment around it is used.
fn rest_of_section<'a>(elf: &Elf<'a>, address: Address) -> Result<Option<(String, &'a [u8])>, Error> {
    let headers = &elf.headers;
    if let Some(location) = elf.locate(address) {
        if elf.loaded_section(address).is_none() {
            return Ok(None);
        }
        let bytes = headers.section_bytes(location.section)?.get(location.offset.to_usize()..);
        let name = match location.offset {
            0 => location.name.into_owned(),
            _ => format!(".eh_frame in {}", location.name),
        };
        return Ok(bytes.map(|bytes| (name, bytes)));
    }
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
    Ok(Some((".eh_frame".into(), bytes)))
}

/// Returns the number of bytes up to the first terminator (a record of length 0) after the last FDE of the table.
/// Linkers need not write a terminator. Then other data may follow the last FDE, so records after it only count if all
/// of them can be read. If a record before it is damaged, the result is the number of all bytes.
fn length(section: &cfi::Section<'_>, last_fde: Option<u64>) -> usize {
    let bytes = section.bytes;
    // The end of the last FDE. Without a table, records are read up to the first terminator.
    let mut known = last_fde.is_none().then_some(0);
    let mut offset = 0;
    while let Some(end) = end_of_record(section, offset) {
        if known.is_some() && end == offset + 4 {
            break;
        }
        if last_fde == Some(offset.to_u64()) {
            known = Some(end);
        }
        offset = end;
    }
    let Some(known) = known else { return bytes.len() };
    let is_damaged = !bytes[offset..].starts_with(&[0; 4]) && offset != bytes.len();
    if last_fde.is_none() {
        return if is_damaged { bytes.len() } else { offset };
    }
    let mut more = cfi::Functions::between(section, SectionOffset(known), SectionOffset(offset));
    if is_damaged || more.any(|function| function.is_err()) { known } else { offset }
}

/// Returns the end of the record at an offset, or `None` if the record reaches beyond the bytes.
fn end_of_record(section: &cfi::Section<'_>, offset: usize) -> Option<usize> {
    let (record, endian) = (section.bytes.get(offset..)?, section.arch.endian());
    let (header, length) = match (endian.u32(*record.first_chunk()?), record.get(4..12)) {
        (u32::MAX, Some(&[a, b, c, d, e, f, g, h])) => (12, endian.u64([a, b, c, d, e, f, g, h])),
        (length, _) => (4, length.into()),
    };
    let end = offset.checked_add(header)?.checked_add(usize::try_from(length).ok()?)?;
    (end <= section.bytes.len()).then_some(end)
}
