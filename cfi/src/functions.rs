//! Iterates over the functions of a section.

use core::fmt;

use cfipack_format::{Address, Key, SectionOffset};

use crate::cie_cache::CieCache;
use crate::plain::PlainFde;
use crate::record::{Record, Records};
use crate::{Error, Excluded, Function, Section, SectionKind};

/// How to find the key of a function. Use [`Addresses`] for relocated input. For unrelocated input you pass a
/// closure. It becomes [`Resolved`], or [`Limited`] if it also returns the greatest size of the function.
pub trait Keys: sealed::Sealed {
    /// True if the keys are the functions' addresses.
    const ARE_ADDRESSES: bool;

    /// Returns the key of a function and the greatest number of bytes it can have, if known, or `None` for a dead
    /// function. `start_field` is the offset of its start field, and `start` is the address that the field
    /// encodes.
    #[doc(hidden)]
    fn key(&mut self, start_field: SectionOffset, start: Address) -> Option<(Key, Option<u32>)>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Addresses {}
    impl<F> Sealed for super::Resolved<F> {}
    impl<F> Sealed for super::Limited<F> {}
}

/// Each key is the function's address. Relocated sections have these keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses;

impl Keys for Addresses {
    const ARE_ADDRESSES: bool = true;

    #[inline(always)]
    fn key(&mut self, _: SectionOffset, start: Address) -> Option<(Key, Option<u32>)> {
        Some((Key(start.0), None))
    }
}

/// A closure returns each key, from the offset of the function's start field.
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
    fn key(&mut self, start_field: SectionOffset, _: Address) -> Option<(Key, Option<u32>)> {
        Some(((self.0)(start_field)?, None))
    }
}

/// A closure returns each key and the function's greatest size, from the offset of the function's start field.
#[derive(Clone, Copy)]
pub struct Limited<F>(F);

impl<F> fmt::Debug for Limited<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limited")
    }
}

impl<F: FnMut(SectionOffset) -> Option<(Key, Option<u32>)>> Keys for Limited<F> {
    const ARE_ADDRESSES: bool = false;

    #[inline(always)]
    fn key(&mut self, start_field: SectionOffset, _: Address) -> Option<(Key, Option<u32>)> {
        (self.0)(start_field)
    }
}

/// An iterator over the functions of a section, in the order of their FDEs.
///
/// A malformed record is an `Err` item. The iterator goes on after it, unless the record's length is malformed:
/// then it ends.
#[derive(Clone, Debug)]
pub struct Functions<'a, K = Addresses> {
    pub(crate) section: Records<'a>,
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// The offset of the next [excluded](Section::excluded) FDE, or `usize::MAX` if there is none.
    pub(crate) next_excluded: usize,
    excluded: &'a [Excluded],
    pub(crate) cies: CieCache<'a>,
    pub(crate) keys: K,
}

impl<'a> Functions<'a> {
    /// Returns all functions of a relocated section. Their keys are their addresses.
    pub fn new(section: &Section<'a>) -> Self {
        Self::between(section, SectionOffset(0), SectionOffset(section.bytes.len()))
    }

    /// Returns the functions with an FDE in a range of offsets. `from` must be the offset of a record, see
    /// [`record_at_or_after`](crate::record_at_or_after).
    pub fn between(section: &Section<'a>, from: SectionOffset, to: SectionOffset) -> Self {
        Self::with_keys(section, from, to, Addresses)
    }
}

impl<'a, F: FnMut(SectionOffset) -> Option<Key>> Functions<'a, Resolved<F>> {
    /// Returns all functions of an `.eh_frame` without relocation, as it is in a relocatable object.
    ///
    /// For each FDE, `key_of` gets the offset of the start field. It returns the key of the function that the
    /// field's relocation names, or `None` to skip a dead function. It is called once per FDE, in ascending
    /// order of offsets, so you can go through sorted relocations in parallel. The section's address and bases
    /// are not used.
    ///
    /// The functions have no [start](Function::start). `DW_CFA_set_loc` and LSDAs need a start, so they are
    /// refused with [`Reason::PlaceUnknown`](cfipack_format::Reason::PlaceUnknown). Each FDE of
    /// `.debug_frame` is refused with [`Error::Unrelocated`], because a relocation also changes its CIE
    /// pointer.
    pub fn keyed(section: &Section<'a>, key_of: F) -> Self {
        Self::keyed_between(section, SectionOffset(0), SectionOffset(section.bytes.len()), key_of)
    }

    /// Like [`keyed`](Self::keyed), for the functions with an FDE in a range of offsets. `from` must be the
    /// offset of a record.
    pub fn keyed_between(section: &Section<'a>, from: SectionOffset, to: SectionOffset, key_of: F) -> Self {
        Self::with_keys(section, from, to, Resolved(key_of))
    }
}

impl<'a, F: FnMut(SectionOffset) -> Option<(Key, Option<u32>)>> Functions<'a, Limited<F>> {
    /// Like [`keyed_between`](Functions::keyed_between), if you know the greatest sizes of functions. This
    /// is, for example, the distance to the end of its input section. `key_of` returns it with the key, in
    /// bytes. If the FDE claims a greater size, the function gets this size.
    pub fn limited_between(section: &Section<'a>, from: SectionOffset, to: SectionOffset, key_of: F) -> Self {
        Self::with_keys(section, from, to, Limited(key_of))
    }
}

impl<'a, K: Keys> Functions<'a, K> {
    fn with_keys(section: &Section<'a>, from: SectionOffset, to: SectionOffset, keys: K) -> Self {
        let excluded = excluded_from(section.excluded, from.0);
        Self {
            section: Records::new(section, K::ARE_ADDRESSES),
            at: from.0,
            end: to.0.min(section.bytes.len()),
            next_excluded: offset_of_first(excluded),
            excluded,
            cies: CieCache::new(),
            keys,
        }
    }

    /// Finds the next FDE to skip. Returns whether it is the next record.
    #[cold]
    fn find_excluded(&mut self) -> bool {
        self.excluded = excluded_from(self.excluded, self.at);
        self.next_excluded = offset_of_first(self.excluded);
        self.next_excluded == self.at
    }

    /// Returns the offset of the next record.
    pub fn offset(&self) -> SectionOffset {
        SectionOffset(self.at)
    }

    /// Returns the function of an FDE, or `None` if the function is dead.
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

    /// Returns the function of a plain FDE that [`next_plain`](Self::next_plain) has returned.
    #[cold]
    pub fn function_of(&mut self, fde: &PlainFde) -> Result<Function<'a>, Error> {
        let section = &self.section;
        let cie = section.cie_offset_of_plain(fde);
        let cie = self.cies.get(cie.0, section, || section.cie_of_plain(cie))?;
        Ok(Function::from_plain(section, cie, fde))
    }
}

/// Returns the excluded FDEs at or after an offset.
fn excluded_from(excluded: &[Excluded], at: usize) -> &[Excluded] {
    &excluded[excluded.partition_point(|excluded| excluded.fde.0 < at)..]
}

fn offset_of_first(excluded: &[Excluded]) -> usize {
    excluded.first().map_or(usize::MAX, |excluded| excluded.fde.0)
}

impl<'a, K: Keys> Iterator for Functions<'a, K> {
    type Item = Result<Function<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self { section, cies, keys, .. } = self;
        let end = self.end.min(self.next_excluded);
        let plain = section.take_plain_fde(&mut self.at, end, keys, |cie| cies.is_plain(cie).then_some(()));
        if let Some((fde, ())) = plain {
            let cie = section.cie_offset_of_plain(&fde);
            let cie = cies.get(cie.0, section, || section.cie_of_plain(cie));
            return Some(cie.map(|cie| Function::from_plain(section, cie, &fde)));
        }
        while self.at < self.end {
            // Fewer bytes are left than a length field has: they are padding.
            if self.section.bytes.len() - self.at < 4 {
                return None;
            }
            let (record, next) = match self.section.record(self.at) {
                Ok(found) => found,
                Err(error) => {
                    // Without a valid length, the next record cannot be found.
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
