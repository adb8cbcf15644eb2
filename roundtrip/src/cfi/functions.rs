//! The functions of a section, found once and sorted by address.

use std::ops::Range;

use cfipack_format::cfi::Section;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};
use gimli::{Endianity, UnwindOffset, UnwindSection};

use super::about::About;
use super::cies::Cies;
use super::record::records;
use super::source::{Reader, Source, Visit};

/// A function: the PCs that one FDE answers for, and where that FDE is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Function {
    /// First address.
    pub start: Address,
    /// One past the last address; not beyond the start of the next function, see [`Functions`].
    pub end: Address,
    /// The index of the section.
    pub section: usize,
    /// The offset of the FDE.
    pub fde: SectionOffset,
}

/// A record that gimli cannot read: the code it is for is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unreadable {
    /// The index of the section.
    pub section: usize,
    /// The offset of the record.
    pub offset: SectionOffset,
    /// gimli's error.
    pub error: gimli::Error,
}

/// The functions of all sections of call frame information, in order of address, no two of them
/// sharing a PC: as a binary search over start addresses (`.eh_frame_hdr`'s) sees them.
///
/// - FDEs that start at one address are one function: the longest of them, of equals the first. Whether
///   the others agree is what [`Evaluator::is_disputed`](super::Evaluator::is_disputed) returns.
/// - A function ends where the next one starts; what it has after that one's end are its
///   [tails](Functions::tails), as far as no function has them that starts later.
/// - An FDE whose function ends beyond the last address is unreadable.
/// - FDEs of size 0 have no PC and are omitted.
///
/// Memory: 32 bytes a function, and a copy of a section that has a CIE which gimli must be helped with.
#[derive(Clone, Debug)]
pub struct Functions<'a> {
    sources: Vec<Source<'a>>,
    list: Vec<Function>,
    /// FDEs that start where one of the list does, in order of address.
    duplicates: Vec<Function>,
    empty: u64,
    /// In order of function, then of address.
    tails: Vec<Tail>,
    unreadable: Vec<Unreadable>,
}

impl<'a> Functions<'a> {
    /// Finds the functions. Those that cannot be read are in [`Functions::unreadable`].
    pub fn find(sections: &[Section<'a>]) -> Self {
        let sources: Vec<_> = sections.iter().map(Source::new).collect();
        let (mut list, mut unreadable) = (Vec::new(), Vec::new());
        for (section, source) in sources.iter().enumerate() {
            source.visit(Scan { section, list: &mut list, unreadable: &mut unreadable });
        }
        let found = list.len();
        list.retain(|f| f.start < f.end);
        let empty = (found - list.len()).to_u64();
        // Of one start the longest first, then in the order of the sections.
        if !list.is_sorted_by_key(|f| f.start) {
            list.sort_by_cached_key(|f| f.start.0);
        }
        for same in list.chunk_by_mut(|a, b| a.start == b.start).filter(|same| same.len() > 1) {
            same.sort_by_cached_key(|f| !f.end.0);
        }
        let mut duplicates = Vec::new();
        list.dedup_by(|other, kept| {
            let is_duplicate = other.start == kept.start;
            duplicates.extend(is_duplicate.then_some(*other));
            is_duplicate
        });
        let tails = cut(&mut list);
        Self { sources, list, duplicates, empty, tails, unreadable }
    }

    /// The functions, in order of address.
    pub fn as_slice(&self) -> &[Function] {
        &self.list
    }

    /// FDEs of size 0, which have no PC and are not in the list.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// FDEs that start where another one starts, and are not counted as functions of their own.
    pub fn duplicates(&self) -> u64 {
        self.duplicates.len().to_u64()
    }

    /// Returns whether another FDE starts where a function does.
    #[inline]
    pub(crate) fn has_duplicates(&self, function: &Function) -> bool {
        !self.duplicates.is_empty() && !self.duplicates_of(function).is_empty()
    }

    /// The FDEs that start where a function does, without its own.
    pub(super) fn duplicates_of(&self, function: &Function) -> &[Function] {
        let first = self.duplicates.partition_point(|other| other.start < function.start);
        let rest = &self.duplicates[first..];
        &rest[..rest.partition_point(|other| other.start == function.start)]
    }

    /// The FDE at the highest offset, in the function's section, of those that start where it does.
    pub(crate) fn last_fde(&self, function: &Function) -> SectionOffset {
        let others = self.duplicates_of(function).iter().filter(|other| other.section == function.section);
        others.map(|other| other.fde).fold(function.fde, SectionOffset::max)
    }

    /// The PCs that a function has after others that lie inside it, in order: no search by start address
    /// finds it for them.
    pub fn tails<'f>(
        &'f self,
        function: &Function,
    ) -> impl Iterator<Item = Range<u64>> + Clone + use<'f, 'a> {
        let start = function.start;
        let first = self.tails.partition_point(|tail| tail.function < start);
        let its_own = self.tails[first..].iter().take_while(move |tail| tail.function == start);
        its_own.map(|tail| tail.pcs.clone())
    }

    /// Returns whether a function has PCs after others that lie inside it.
    #[inline]
    pub(crate) fn has_tails(&self, function: &Function) -> bool {
        !self.tails.is_empty() && self.tails(function).next().is_some()
    }

    /// The tails of all functions, in order of address.
    pub fn all_tails(&self) -> Vec<Range<u64>> {
        let mut all: Vec<_> = self.tails.iter().map(|tail| tail.pcs.clone()).collect();
        all.sort_by_cached_key(|pcs| pcs.start);
        all
    }

    /// A function with all its PCs and those of the functions inside it, up to the end of its last tail.
    pub fn with_tails(&self, function: &Function) -> Function {
        let end = self.tails(function).last().map_or(function.end, |pcs| Address(pcs.end));
        Function { end, ..*function }
    }

    /// Records that gimli cannot read.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// Visits every section, in order.
    pub(super) fn visit<'f, V: Visit<'f>>(&'f self, visit: impl Fn() -> V) -> Vec<V::Output> {
        self.sources.iter().map(|source| source.visit(visit())).collect()
    }
}

/// PCs of a function after another one.
#[derive(Clone, Debug)]
struct Tail {
    /// The start of the function.
    function: Address,
    pcs: Range<u64>,
}

/// Ends functions, which are sorted, where the next one starts. Returns what comes after that.
fn cut(list: &mut [Function]) -> Vec<Tail> {
    let mut tails = Vec::new();
    // The functions that continue after the last one, by start: where they start and end.
    let mut around: Vec<(Address, u64)> = Vec::new();
    for i in 0..list.len() {
        let next = list.get(i + 1).map_or(u64::MAX, |next| next.start.0);
        let Function { start, end, .. } = list[i];
        if end.0 > next {
            list[i].end = Address(next);
            around.push((start, end.0));
            continue;
        }
        let mut pc = end.0;
        while let Some(&(function, end)) = around.last() {
            if pc < end.min(next) {
                tails.push(Tail { function, pcs: pc..end.min(next) });
                pc = end.min(next);
            }
            if end > next {
                break;
            }
            around.pop();
        }
    }
    tails.sort_by_cached_key(|tail| tail.function.0);
    tails
}

/// Reads every FDE of a section as far as its addresses.
struct Scan<'l> {
    section: usize,
    list: &'l mut Vec<Function>,
    unreadable: &'l mut Vec<Unreadable>,
}

impl<'f> Visit<'f> for Scan<'_> {
    type Output = ();

    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(self, frames: S, about: About<'f>) {
        let mut cies = Cies::new();
        for record in records(about.section).filter(|record| !record.is_cie) {
            let parsed = frames.partial_fde_from_offset(&about.bases, record.offset.into());
            let parsed = parsed.and_then(|partial| {
                partial.parse(|frames, bases, offset| {
                    let read = || frames.cie_from_offset(bases, offset);
                    cies.at(UnwindOffset::into(offset), read).clone()
                })
            });
            // gimli gives the address of the cell for what is in it, which only a running program knows.
            let parsed = parsed.and_then(|parsed| match parsed.cie().fde_address_encoding() {
                Some(encoding) if encoding.is_indirect() => {
                    Err(gimli::Error::UnsupportedPointerEncoding(encoding))
                }
                _ => Ok(parsed),
            });
            // One that ends beyond the last address is malformed, not as long as gimli makes it.
            let range = parsed.and_then(|parsed| {
                let (start, end) =
                    (parsed.initial_address(), parsed.initial_address().checked_add(parsed.len()));
                Ok((Address(start), Address(end.ok_or(gimli::Error::AddressOverflow)?)))
            });
            let (section, fde) = (self.section, SectionOffset(record.offset));
            match range {
                Ok((start, end)) => self.list.push(Function { start, end, section, fde }),
                Err(error) => self.unreadable.push(Unreadable { section, offset: fde, error }),
            }
        }
    }
}
