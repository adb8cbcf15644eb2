//! The functions of a section, found once and sorted by address.

use std::ops::Range;

use cfipack_format::cfi::Section;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};
use gimli::{Endianity, UnwindOffset, UnwindSection};

use super::about::About;
use super::cies::Cies;
use super::record::records;
use super::source::{Cie, Reader, Source, Visit};
use super::unevaluated::Unevaluated;

/// A function: the PCs that an FDE answers for, and the place of the FDE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Function {
    /// The first address.
    pub start: Address,
    /// One past the last address. It is never after the start of the next function: see [`Functions`].
    pub end: Address,
    /// The index of the section.
    pub section: usize,
    /// The offset of the FDE.
    pub fde: SectionOffset,
}

/// A record that gimli cannot read. It is unknown which code the record is for.
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

impl Unreadable {
    /// Describes the record and the error. `section` is the name of the section.
    pub(crate) fn words(&self, section: &str) -> String {
        format!("the FDE at offset {} of {section}: {}", self.offset, Unevaluated::from(self.error))
    }
}

/// The functions of all sections of CFI, in order of address. No two functions share a PC. A binary search over start
/// addresses, for example in `.eh_frame_hdr`, gives each PC to the same function.
///
/// - FDEs that start at the same address are one function. The longest FDE counts, or the first of the longest FDEs.
///   [`Evaluator::is_disputed`](super::Evaluator::is_disputed) returns whether the other FDEs disagree.
/// - A function ends where the next function starts. If its FDE goes on after the end of the next function, the PCs
///   there are a [tail](Functions::tails) of the function, except where a function that starts later has them.
/// - An FDE that ends beyond the last address is unreadable.
/// - An FDE of size 0 has no PC and is omitted.
///
/// Memory: 32 bytes for each function. A section is copied if a CIE in it must be changed for gimli.
#[derive(Clone, Debug)]
pub struct Functions<'a> {
    sources: Vec<Source<'a>>,
    list: Vec<Function>,
    /// FDEs that start where a function of the list starts, in order of address.
    duplicates: Vec<Function>,
    empty: u64,
    /// The tails, in order of function, then of address.
    tails: Vec<Tail>,
    unreadable: Vec<Unreadable>,
}

impl<'a> Functions<'a> {
    /// Finds the functions of the sections. Records that gimli cannot read go to [`Functions::unreadable`].
    pub fn find(sections: &[Section<'a>]) -> Self {
        let sources: Vec<_> = sections.iter().map(Source::new).collect();
        let (mut list, mut unreadable) = (Vec::new(), Vec::new());
        for (section, source) in sources.iter().enumerate() {
            source.visit(Scan { section, list: &mut list, unreadable: &mut unreadable });
        }
        let found = list.len();
        list.retain(|f| f.start < f.end);
        let empty = (found - list.len()).to_u64();
        // For each start the longest FDE comes first, then the order of the sections counts.
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

    /// Returns the functions, in order of address.
    pub fn as_slice(&self) -> &[Function] {
        &self.list
    }

    /// Returns the function that contains a PC.
    pub fn at(&self, pc: Address) -> Option<&Function> {
        let after = self.list.partition_point(|function| function.start <= pc);
        let function = &self.list[after.checked_sub(1)?];
        (pc < function.end).then_some(function)
    }

    /// Returns the number of FDEs of size 0. They have no PC and are not in the list.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// Returns the number of FDEs that are not in the list because a function of the list has the same start.
    pub fn duplicates(&self) -> u64 {
        self.duplicates.len().to_u64()
    }

    /// Returns whether another FDE starts where this function does.
    #[inline]
    pub(crate) fn has_duplicates(&self, function: &Function) -> bool {
        !self.duplicates.is_empty() && !self.duplicates_of(function).is_empty()
    }

    /// Returns the other FDEs that start where this function does.
    pub fn duplicates_of(&self, function: &Function) -> &[Function] {
        let first = self.duplicates.partition_point(|other| other.start < function.start);
        let rest = &self.duplicates[first..];
        &rest[..rest.partition_point(|other| other.start == function.start)]
    }

    /// Returns the highest offset among the FDEs of the function's section that start where the function does.
    pub(crate) fn last_fde(&self, function: &Function) -> SectionOffset {
        let others = self.duplicates_of(function).iter().filter(|other| other.section == function.section);
        others.map(|other| other.fde).fold(function.fde, SectionOffset::max)
    }

    /// Returns the tails of a function: PCs after the end of other functions that lie inside it, in order of address.
    /// No search by start address finds this function for its tails.
    ///
    /// For example, if an FDE covers `0x10..0x40` and another FDE `0x20..0x30`, the first function is `0x10..0x20` and
    /// has the tail `0x30..0x40`.
    pub fn tails<'f>(
        &'f self,
        function: &Function,
    ) -> impl Iterator<Item = Range<u64>> + Clone + use<'f, 'a> {
        let start = function.start;
        let first = self.tails.partition_point(|tail| tail.function < start);
        let its_own = self.tails[first..].iter().take_while(move |tail| tail.function == start);
        its_own.map(|tail| tail.pcs.clone())
    }

    /// Returns whether a function has tails.
    #[inline]
    pub(crate) fn has_tails(&self, function: &Function) -> bool {
        !self.tails.is_empty() && self.tails(function).next().is_some()
    }

    /// Returns the tails of all functions, in order of address.
    pub fn all_tails(&self) -> Vec<Range<u64>> {
        let mut all: Vec<_> = self.tails.iter().map(|tail| tail.pcs.clone()).collect();
        all.sort_by_cached_key(|pcs| pcs.start);
        all
    }

    /// Extends a function to the end of its last tail. The result also covers the functions inside it.
    pub fn with_tails(&self, function: &Function) -> Function {
        let end = self.tails(function).last().map_or(function.end, |pcs| Address(pcs.end));
        Function { end, ..*function }
    }

    /// Returns the records that gimli cannot read.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// Visits a section [without unknown instructions](Source::visit_known).
    pub(super) fn visit_known<'f, V: Visit<'f>>(&'f self, section: usize, visit: V) -> Option<V::Output> {
        self.sources.get(section).map(|source| source.visit_known(visit))
    }

    /// Visits every section, in order.
    pub(super) fn visit<'f, V: Visit<'f>>(&'f self, visit: impl Fn() -> V) -> Vec<V::Output> {
        self.sources.iter().map(|source| source.visit(visit())).collect()
    }
}

/// A tail: PCs of a function after a function that lies inside it.
#[derive(Clone, Debug)]
struct Tail {
    /// The start of the function.
    function: Address,
    pcs: Range<u64>,
}

/// Ends each function where the next function starts, and returns the tails. The list must be sorted by start.
fn cut(list: &mut [Function]) -> Vec<Tail> {
    let mut tails = Vec::new();
    // The starts and ends of functions that go on after the current function, in order of start.
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

/// Finds the PCs of every FDE of a section.
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
            let (section, fde) = (self.section, SectionOffset(record.offset));
            match start_and_end(&frames, &about, record.offset, &mut cies) {
                Ok((start, end)) => self.list.push(Function { start, end, section, fde }),
                Err(error) => self.unreadable.push(Unreadable { section, offset: fde, error }),
            }
        }
    }
}

/// Reads the start and the end of the FDE at an offset.
#[inline]
fn start_and_end<'f, E: Endianity, S: UnwindSection<Reader<'f, E>>>(
    frames: &S,
    about: &About<'f>,
    offset: usize,
    cies: &mut Cies<gimli::Result<Cie<'f, E>>>,
) -> gimli::Result<(Address, Address)> {
    let partial = frames.partial_fde_from_offset(&about.bases, offset.into())?;
    let fde = partial.parse(|frames, bases, offset| {
        cies.at(UnwindOffset::into(offset), || frames.cie_from_offset(bases, offset)).clone()
    })?;
    // For an indirect pointer, gimli returns the address of the cell. Only a running program knows the cell's content.
    if let Some(encoding) = fde.cie().fde_address_encoding()
        && encoding.is_indirect()
    {
        return Err(gimli::Error::UnsupportedPointerEncoding(encoding));
    }
    // An FDE that ends beyond the last address is malformed. gimli would shorten it.
    let end = fde.initial_address().checked_add(fde.len()).ok_or(gimli::Error::AddressOverflow)?;
    Ok((Address(fde.initial_address()), Address(end)))
}
