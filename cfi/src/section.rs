//! A section of call frame information, and the walk over its records.

use alloc::boxed::Box;
use core::fmt;

use cfipack_format::{Address, Arch, SectionOffset};

use crate::cursor::Cursor;
use crate::plain::PlainCies;
use crate::{Cie, Error, Function};

/// Which of the two layouts a section has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SectionKind {
    /// `.eh_frame`: CIE pointers count back from their own field; a zero length ends a part.
    EhFrame,
    /// `.debug_frame`: CIE pointers are offsets in the section.
    DebugFrame,
}

/// A section of call frame information, relocations applied.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Where it lies in memory: the base of PC-relative pointers.
    pub address: Address,
    /// Its layout.
    pub kind: SectionKind,
    /// The architecture, which gives byte order and pointer size.
    pub arch: Arch,
    /// The base of `DW_EH_PE_textrel` pointers.
    pub text: Address,
    /// The base of `DW_EH_PE_datarel` pointers (the GOT).
    pub data: Address,
}

/// A record: a CIE or an FDE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) offset: SectionOffset,
    /// Where the CIE id or CIE pointer lies.
    pub(crate) id_at: usize,
    /// The CIE id or CIE pointer.
    pub(crate) id: u64,
    pub(crate) is_64_bit: bool,
    /// What follows it.
    pub(crate) body: &'a [u8],
}

impl<'a> Section<'a> {
    /// A section whose pointers need no text or data base.
    pub fn new(kind: SectionKind, bytes: &'a [u8], address: Address, arch: Arch) -> Self {
        Self { bytes, address, kind, arch, text: Address(0), data: Address(0) }
    }

    /// Its functions. A malformed record is an item of its own; the iterator goes on behind it
    /// where its length can be believed, else it ends.
    pub fn functions(&self) -> Functions<'a> {
        self.functions_between(SectionOffset(0), SectionOffset(self.bytes.len()))
    }

    /// The functions whose FDEs start in a range of offsets, the first of which is a record's.
    pub fn functions_between(&self, from: SectionOffset, to: SectionOffset) -> Functions<'a> {
        let end = to.0.min(self.bytes.len());
        let cies = CieCache::default();
        Functions { section: *self, at: from.0, end, cies, plain_cies: PlainCies::NONE }
    }

    /// The address of a tail of the section's bytes.
    #[inline]
    pub(crate) fn address_of(&self, tail_of_record: &'a [u8]) -> Address {
        Address(self.address.0.wrapping_add(self.offset_of(tail_of_record) as u64))
    }

    /// The offset at which a part of the section's bytes starts.
    #[inline]
    pub(crate) fn offset_of(&self, part: &'a [u8]) -> usize {
        part.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr())
    }

    /// Where the record at `at` has its id, whether it is of the 64-bit format, and where it ends.
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

    /// Where the record at `at` ends, if one starts there.
    #[inline]
    pub(crate) fn record_end(&self, at: usize) -> Option<usize> {
        self.extent(at).ok().map(|(_, _, end)| end)
    }

    /// The record at `at` and the offset behind it; no record where a terminator stands.
    #[inline]
    pub(crate) fn record(&self, at: usize) -> Result<(Option<Record<'a>>, usize), Error> {
        let (id_at, is_64_bit, end) = self.extent(at)?;
        let mut cursor = Cursor::new(&self.bytes[id_at..end], self.arch.endian());
        let id = if self.kind.id_size(is_64_bit) == 8 { cursor.u64() } else { cursor.u32().map(u64::from) };
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

    /// Where the CIE of an FDE starts.
    #[inline]
    pub(crate) fn cie_offset(&self, fde: &Record<'a>) -> Option<usize> {
        match self.kind {
            SectionKind::EhFrame => fde.id_at.checked_sub(usize::try_from(fde.id).ok()?),
            SectionKind::DebugFrame => usize::try_from(fde.id).ok(),
        }
    }

    /// The CIE of a plain FDE, which has been parsed before.
    #[cold]
    fn cie_of_plain(&self, at: SectionOffset) -> Result<Cie<'a>, Error> {
        match self.record(at.0)? {
            (Some(record), _) => Cie::parse(self, at, record.body),
            (None, _) => Err(Error::Truncated { offset: at }),
        }
    }

    fn cie(&self, at: usize, fde: &Record<'a>) -> Result<Cie<'a>, Error> {
        match self.record(at) {
            Ok((Some(record), _)) if self.is_cie(&record) => Cie::parse(self, record.offset, record.body),
            _ => Err(Error::CiePointer { offset: fde.offset, pointer: fde.id }),
        }
    }
}

/// The functions of a section, in its order.
#[derive(Clone, Debug)]
pub struct Functions<'a> {
    pub(crate) section: Section<'a>,
    pub(crate) at: usize,
    pub(crate) end: usize,
    cies: CieCache<'a>,
    pub(crate) plain_cies: PlainCies,
}

impl<'a> Functions<'a> {
    /// Where the next record starts.
    pub fn offset(&self) -> SectionOffset {
        SectionOffset(self.at)
    }

    #[inline]
    fn function(&mut self, record: &Record<'a>) -> Result<Function<'a>, Error> {
        let section = &self.section;
        let dangling = Error::CiePointer { offset: record.offset, pointer: record.id };
        let at = section.cie_offset(record).ok_or(dangling)?;
        let cie = self.cies.get(at, || section.cie(at, record))?;
        self.plain_cies.note(section, cie);
        Function::parse(section, cie, record)
    }

    /// The function whose FDE starts at `at`.
    #[cold]
    pub fn function_at(&mut self, at: SectionOffset) -> Result<Function<'a>, Error> {
        match self.section.record(at.0)? {
            (Some(record), _) => self.function(&record),
            (None, _) => Err(Error::Truncated { offset: at }),
        }
    }
}

impl<'a> Iterator for Functions<'a> {
    type Item = Result<Function<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let is_plain = |cie| self.plain_cies.contains(cie).then_some(());
        if self.at < self.end
            && let Some((fde, ())) = self.section.plain_fde(self.at, is_plain)
        {
            self.at = fde.end();
            let section = &self.section;
            let cie = self.cies.get(fde.cie.0, || section.cie_of_plain(fde.cie));
            return Some(cie.map(|cie| Function::of_plain(section, cie, &fde)));
        }
        while self.at < self.end {
            // Fewer bytes than a length field: padding.
            if self.section.bytes.len() - self.at < 4 {
                return None;
            }
            let (record, next) = match self.section.record(self.at) {
                Ok(found) => found,
                Err(error) => {
                    // Nothing behind it can be found.
                    self.at = self.section.bytes.len();
                    return Some(Err(error));
                }
            };
            self.at = next;
            match record {
                Some(record) if !self.section.is_cie(&record) => return Some(self.function(&record)),
                _ => {}
            }
        }
        None
    }
}

/// The CIEs parsed last, by offset: real sections have a handful, hostile ones as many as FDEs.
#[derive(Clone)]
struct CieCache<'a>(Box<[Option<(usize, Cie<'a>)>; 16]>);

impl Default for CieCache<'_> {
    fn default() -> Self {
        Self(Box::new([None; 16]))
    }
}

impl fmt::Debug for CieCache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CieCache")
    }
}

impl<'a> CieCache<'a> {
    #[inline]
    fn get(&mut self, at: usize, parse: impl FnOnce() -> Result<Cie<'a>, Error>) -> Result<&Cie<'a>, Error> {
        // CIEs are at least 12 bytes long and 4-aligned.
        let slot = &mut self.0[(at >> 2) % 16];
        if !matches!(slot, Some((cached, _)) if *cached == at) {
            *slot = None;
            let cie = parse()?;
            return Ok(&slot.insert((at, cie)).1);
        }
        slot.as_ref().map(|(_, cie)| cie).ok_or(Error::Truncated { offset: SectionOffset(at) })
    }
}
