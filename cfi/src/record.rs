//! Records: the common structure of CIEs and FDEs, and how to distinguish them.

use core::ops::Deref;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};

use crate::cursor::Cursor;
use crate::{Cie, Error, Section, SectionKind};

/// A section whose records can be read.
///
/// ```text
/// length  4, or ffffffff and 8 | id  4 or 8: of a CIE, or an FDE's CIE pointer | body
/// ```
///
/// The 64-bit format is in DWARF 5, section 7.4. The id of a CIE is 0 in `.eh_frame`, and all ones in
/// `.debug_frame`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records<'a> {
    section: Section<'a>,
    /// True if the bytes are relocated and the section's address is known.
    pub(crate) is_placed: bool,
}

impl<'a> Deref for Records<'a> {
    type Target = Section<'a>;

    #[inline(always)]
    fn deref(&self) -> &Section<'a> {
        &self.section
    }
}

/// A record: a CIE or an FDE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) offset: SectionOffset,
    /// The offset of the CIE id or CIE pointer.
    pub(crate) id_at: usize,
    /// The CIE id or CIE pointer.
    pub(crate) id: u64,
    pub(crate) is_64_bit: bool,
    /// The bytes after the id.
    pub(crate) body: &'a [u8],
}

impl<'a> Records<'a> {
    /// Creates the records of a section. `is_placed` is true if the section is relocated.
    pub(crate) fn new(section: &Section<'a>, is_placed: bool) -> Self {
        Self { section: *section, is_placed }
    }

    /// Returns the address of a tail of the section's bytes.
    #[inline]
    pub(crate) fn address_of(&self, tail_of_record: &'a [u8]) -> Address {
        Address(self.address.0.wrapping_add(self.offset_of(tail_of_record).to_u64()))
    }

    /// Returns the offset of a part of the section's bytes.
    #[inline]
    pub(crate) fn offset_of(&self, part: &'a [u8]) -> usize {
        part.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr())
    }

    /// Returns the offset of the record's id, whether the record has the 64-bit format, and the record's end.
    #[inline]
    fn extent(&self, at: usize) -> Result<(usize, bool, usize), Error> {
        let offset = SectionOffset(at);
        let truncated = Error::Truncated { offset };
        let mut cursor = Cursor::new(self.bytes.get(at..).ok_or(truncated)?, self.arch.endian());
        let length = u64::from(cursor.u32().ok_or(truncated)?);
        let (field, length) = match length {
            0xffff_ffff => (12, cursor.u64().ok_or(truncated)?),
            0xffff_fff0.. => return Err(Error::Length { offset, length }),
            _ => (4, length),
        };
        match usize::try_from(length) {
            Ok(length) if length <= cursor.rest().len() => Ok((at + field, field == 12, at + field + length)),
            _ => Err(Error::Length { offset, length }),
        }
    }

    /// Returns the end of the record at `at`.
    #[inline]
    pub(crate) fn end(&self, at: usize) -> Result<usize, Error> {
        self.extent(at).map(|(_, _, end)| end)
    }

    /// Returns the end of the record at `at`, or `None` if there is no record.
    #[inline]
    pub(crate) fn record_end(&self, at: usize) -> Option<usize> {
        self.end(at).ok()
    }

    /// Returns the record at `at`, or `None` for a terminator, and the offset after it.
    #[inline]
    pub(crate) fn record(&self, at: usize) -> Result<(Option<Record<'a>>, usize), Error> {
        let (id_at, is_64_bit, end) = self.extent(at)?;
        let mut cursor = Cursor::new(&self.bytes[id_at..end], self.arch.endian());
        let id = if id_size(self.kind, is_64_bit) == 8 { cursor.u64() } else { cursor.u32().map(u64::from) };
        // A record too short for an id is as empty as a terminator.
        let record =
            id.map(|id| Record { offset: SectionOffset(at), id_at, id, is_64_bit, body: cursor.rest() });
        Ok((record, end))
    }

    pub(crate) fn is_cie(&self, record: &Record<'a>) -> bool {
        match self.kind {
            SectionKind::EhFrame => record.id == 0,
            SectionKind::DebugFrame if record.is_64_bit => record.id == u64::MAX,
            SectionKind::DebugFrame => record.id == 0xffff_ffff,
        }
    }

    /// Returns the offset of an FDE's CIE.
    #[inline]
    pub(crate) fn cie_offset(&self, fde: &Record<'a>) -> Option<usize> {
        match self.kind {
            SectionKind::EhFrame => fde.id_at.checked_sub(usize::try_from(fde.id).ok()?),
            SectionKind::DebugFrame => usize::try_from(fde.id).ok(),
        }
    }

    /// Returns the CIE of a plain FDE. It has been parsed before.
    #[cold]
    pub(crate) fn cie_of_plain(&self, at: SectionOffset) -> Result<Cie<'a>, Error> {
        match self.record(at.0)? {
            (Some(record), _) => Cie::parse(self, at, record.body),
            (None, _) => Err(Error::Truncated { offset: at }),
        }
    }

    pub(crate) fn cie(&self, at: usize, fde: &Record<'a>) -> Result<Cie<'a>, Error> {
        match self.record(at) {
            Ok((Some(record), _)) if self.is_cie(&record) => Cie::parse(self, record.offset, record.body),
            _ => Err(Error::CiePointer { offset: fde.offset, pointer: fde.id }),
        }
    }
}

/// Returns the size of the CIE id in bytes.
#[inline]
pub(crate) const fn id_size(kind: SectionKind, is_64_bit: bool) -> usize {
    match kind {
        SectionKind::DebugFrame if is_64_bit => 8,
        _ => 4,
    }
}
