//! The walk over a section's functions.

use core::fmt;

use cfipack_format::{Address, Key, SectionOffset};

use crate::cie_cache::CieCache;
use crate::plain::PlainFde;
use crate::record::{Record, Records};
use crate::{Error, Excluded, Function, Section, SectionKind};

/// The source of the functions' keys in a section: their [`Addresses`] in relocated input, or what a closure
/// [resolves](Resolved) in unrelocated input, with the functions' [room](Limited) if it is known.
pub trait Keys: sealed::Sealed {
    /// True if the keys are the functions' addresses.
    const ARE_ADDRESSES: bool;

    /// The key of the function whose start field lies at an offset and stands for an address, and how many bytes it
    /// has at most; none for a function that is dead.
    #[doc(hidden)]
    fn key(&mut self, start_field: SectionOffset, start: Address) -> Option<(Key, u64)>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Addresses {}
    impl<F> Sealed for super::Resolved<F> {}
    impl<F> Sealed for super::Limited<F> {}
}

/// The keys are the functions' addresses: the section is relocated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses;

impl Keys for Addresses {
    const ARE_ADDRESSES: bool = true;

    #[inline(always)]
    fn key(&mut self, _: SectionOffset, start: Address) -> Option<(Key, u64)> {
        Some((Key(start.0), u64::MAX))
    }
}

/// The keys are what a closure gives for the offset of a function's start field.
#[derive(Clone, Copy)]
pub struct Resolved<F>(F);

impl<F> fmt::Debug for Resolved<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolved")
    }
}

impl<F: FnMut(SectionOffset) -> Option<Key>> Keys for Resolved<F> {
    const ARE_ADDRESSES: bool = false;

    #[inline(always)]
    fn key(&mut self, start_field: SectionOffset, _: Address) -> Option<(Key, u64)> {
        Some(((self.0)(start_field)?, u64::MAX))
    }
}

/// The keys, and the most bytes that each function can have, are what a closure gives for the offset of a function's
/// start field.
#[derive(Clone, Copy)]
pub struct Limited<F>(F);

impl<F> fmt::Debug for Limited<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limited")
    }
}

impl<F: FnMut(SectionOffset) -> Option<(Key, u64)>> Keys for Limited<F> {
    const ARE_ADDRESSES: bool = false;

    #[inline(always)]
    fn key(&mut self, start_field: SectionOffset, _: Address) -> Option<(Key, u64)> {
        (self.0)(start_field)
    }
}

/// The functions of a section, in its order. A malformed record is an item of its own; the iterator goes on
/// after it if its length is credible, else it ends.
#[derive(Clone, Debug)]
pub struct Functions<'a, K = Addresses> {
    pub(crate) section: Records<'a>,
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// The offset of the next [excluded](Section::excluded) FDE; `usize::MAX` if there is none.
    pub(crate) next_excluded: usize,
    excluded: &'a [Excluded],
    pub(crate) cies: CieCache<'a>,
    pub(crate) keys: K,
}

impl<'a> Functions<'a> {
    /// All functions of a section that is relocated: their keys are their addresses.
    pub fn new(section: &Section<'a>) -> Self {
        Self::between(section, SectionOffset(0), SectionOffset(section.bytes.len()))
    }

    /// The functions whose FDEs start in a range of offsets, the first of which is a record's.
    pub fn between(section: &Section<'a>, from: SectionOffset, to: SectionOffset) -> Self {
        Self::with_keys(section, from, to, Addresses)
    }
}

impl<'a, F: FnMut(SectionOffset) -> Option<Key>> Functions<'a, Resolved<F>> {
    /// All functions of a `.eh_frame` that is not relocated, as it stands in a relocatable object. `key_of` gives,
    /// for the offset of each FDE's start field, the key of the function that the field's relocation leads to, or
    /// none for a function that is dead, which is skipped. It is called once for each FDE, in ascending order of
    /// offsets: a walk along sorted relocations answers it. The section's address and bases are not used.
    ///
    /// The functions have no [start](Function::start). What needs one is refused:
    /// [`Reason::PlaceUnknown`](cfipack_format::Reason::PlaceUnknown) for `DW_CFA_set_loc` and LSDAs, and, for each
    /// FDE of `.debug_frame`, whose CIE pointers are subject to relocation too, [`Error::Unrelocated`].
    pub fn keyed(section: &Section<'a>, key_of: F) -> Self {
        Self::keyed_between(section, SectionOffset(0), SectionOffset(section.bytes.len()), key_of)
    }

    /// Walks as [`keyed`](Self::keyed) the functions whose FDEs start in a range of offsets, the first of which is a
    /// record's.
    pub fn keyed_between(section: &Section<'a>, from: SectionOffset, to: SectionOffset, key_of: F) -> Self {
        Self::with_keys(section, from, to, Resolved(key_of))
    }
}

impl<'a, F: FnMut(SectionOffset) -> Option<(Key, u64)>> Functions<'a, Limited<F>> {
    /// Walks as [`keyed_between`](Functions::keyed_between) where it is also known how many bytes a function can have:
    /// those up to the end of its input section. `key_of` gives them with the key, and a function with more of them by
    /// its FDE is one with as many as that.
    pub fn limited_between(section: &Section<'a>, from: SectionOffset, to: SectionOffset, key_of: F) -> Self {
        Self::with_keys(section, from, to, Limited(key_of))
    }
}

impl<'a, K: Keys> Functions<'a, K> {
    fn with_keys(section: &Section<'a>, from: SectionOffset, to: SectionOffset, keys: K) -> Self {
        let end = to.0.min(section.bytes.len());
        let mut functions = Self {
            section: Records::new(section, K::ARE_ADDRESSES),
            at: from.0,
            end,
            next_excluded: 0,
            excluded: section.excluded,
            cies: CieCache::new(),
            keys,
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

    /// The offset of the next record.
    pub fn offset(&self) -> SectionOffset {
        SectionOffset(self.at)
    }

    /// The function of an FDE, unless it is dead.
    #[inline]
    fn function(&mut self, record: &Record<'a>) -> Result<Option<Function<'a>>, Error> {
        let section = &self.section;
        if !section.is_placed && section.kind == SectionKind::DebugFrame {
            return Err(Error::Unrelocated { offset: record.offset });
        }
        let dangling = Error::CiePointer { offset: record.offset, pointer: record.id };
        let at = section.cie_offset(record).ok_or(dangling)?;
        let cie = self.cies.get(at, section, || section.cie(at, record))?;
        Function::parse(section, cie, record, &mut self.keys)
    }

    /// The function of a plain FDE that was [taken](Self::next_plain).
    #[cold]
    pub fn function_of(&mut self, fde: &PlainFde) -> Result<Function<'a>, Error> {
        let section = &self.section;
        let cie = self.cies.get(fde.cie.0, section, || section.cie_of_plain(fde.cie))?;
        Ok(Function::of_plain(section, cie, fde))
    }
}

impl<'a, K: Keys> Iterator for Functions<'a, K> {
    type Item = Result<Function<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self { section, cies, keys, .. } = self;
        let is_plain = |cie| cies.is_plain(cie).then_some(());
        let end = self.end.min(self.next_excluded);
        if let Some((fde, ())) = section.take_plain_fde(&mut self.at, end, keys, is_plain) {
            let cie = cies.get(fde.cie.0, section, || section.cie_of_plain(fde.cie));
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
                    // Nothing after it can be found.
                    self.at = self.section.bytes.len();
                    return Some(Err(error));
                }
            };
            let is_excluded = self.at >= self.next_excluded && self.find_excluded();
            self.at = next;
            match record {
                Some(_) if is_excluded => {}
                Some(record) if !self.section.is_cie(&record) => {
                    if let Some(function) = self.function(&record).transpose() {
                        return Some(function);
                    }
                }
                _ => {}
            }
        }
        None
    }
}
