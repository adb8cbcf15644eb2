//! The walk over a section's functions.

use alloc::boxed::Box;
use core::fmt;

use cfipack_format::SectionOffset;

use crate::plain::PlainCies;
use crate::record::{Record, Records};
use crate::{Cie, Error, Excluded, Function, Section};

/// The functions of a section, in its order. A malformed record is an item of its own; the iterator goes on
/// after it if its length is credible, else it ends.
#[derive(Clone, Debug)]
pub struct Functions<'a> {
    pub(crate) section: Records<'a>,
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// Where the next [excluded](Section::excluded) FDE starts; `usize::MAX` if there is none.
    pub(crate) next_excluded: usize,
    excluded: &'a [Excluded],
    cies: CieCache<'a>,
    pub(crate) plain_cies: PlainCies,
}

impl<'a> Functions<'a> {
    /// All functions of a section.
    pub fn new(section: &Section<'a>) -> Self {
        Self::between(section, SectionOffset(0), SectionOffset(section.bytes.len()))
    }

    /// The functions whose FDEs start in a range of offsets, the first of which is a record's.
    pub fn between(section: &Section<'a>, from: SectionOffset, to: SectionOffset) -> Self {
        let end = to.0.min(section.bytes.len());
        let mut functions = Self {
            section: Records(*section),
            at: from.0,
            end,
            next_excluded: 0,
            excluded: section.excluded,
            cies: CieCache::default(),
            plain_cies: PlainCies::NONE,
        };
        functions.find_excluded();
        functions
    }

    /// Finds the next FDE to pass over. Returns whether it is the next record.
    #[cold]
    fn find_excluded(&mut self) -> bool {
        let passed = self.excluded.partition_point(|excluded| excluded.fde.0 < self.at);
        self.excluded = &self.excluded[passed..];
        self.next_excluded = self.excluded.first().map_or(usize::MAX, |excluded| excluded.fde.0);
        self.next_excluded == self.at
    }

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
        if self.at < self.end.min(self.next_excluded)
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
            let is_excluded = self.at >= self.next_excluded && self.find_excluded();
            self.at = next;
            match record {
                Some(_) if is_excluded => {}
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
