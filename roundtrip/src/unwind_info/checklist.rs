//! Checks the rules of `__unwind_info`, from the header down to each entry.

use std::fmt;

use cfipack_decoder::unwind_info::{Entry, Page, Section};
use cfipack_format::cfi;
use cfipack_format::compact_unwind::{Encoding, Mode};
use cfipack_format::unwind_info::{IndexEntry, LsdaEntry, PERSONALITY_SIZE};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Arch, ImageOffset, SectionOffset};

use super::encoding::check;
use super::{Code, Fault, Violation};
use crate::cfi::{Functions, record_offsets};

/// The image that a table is checked against.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Image<'a> {
    /// The architecture.
    pub arch: Arch,
    /// The address of the Mach-O header.
    pub base: Address,
    /// The code.
    pub code: &'a Code<'a>,
    /// `__eh_frame`.
    pub cfi: &'a [cfi::Section<'a>],
    /// The function starts of `LC_FUNCTION_STARTS`, in ascending order. Empty if the image has none.
    pub function_starts: &'a [Address],
    /// Returns whether an address is among the pointers that the loader fills in: `__got`, `__auth_got`.
    pub is_slot: &'a dyn Fn(Address) -> bool,
}

impl<'a> Image<'a> {
    /// Describes an image with its Mach-O header at `base`, without function starts and without pointer slots.
    pub const fn new(arch: Arch, base: Address, code: &'a Code<'a>, cfi: &'a [cfi::Section<'a>]) -> Self {
        Self { arch, base, code, cfi, function_starts: &[], is_slot: &|_| false }
    }

    /// Sets the [function starts](Self::function_starts), in ascending order.
    #[must_use]
    pub const fn with_function_starts(self, function_starts: &'a [Address]) -> Self {
        Self { function_starts, ..self }
    }

    /// Sets which addresses are [pointer slots](Self::is_slot).
    #[must_use]
    pub const fn with_slots(self, is_slot: &'a dyn Fn(Address) -> bool) -> Self {
        Self { is_slot, ..self }
    }
}

impl fmt::Debug for Image<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arch, base, .. } = self;
        f.debug_struct("Image").field("arch", arch).field("base", base).finish_non_exhaustive()
    }
}

/// Returns all rules that a table breaks: first the rules of the header and the index, then of each page.
pub fn violations(section: &Section<'_>, image: &Image<'_>) -> Vec<Violation> {
    let functions = Functions::find(image.cfi);
    let mut checklist = Checklist {
        section,
        image,
        found: Vec::new(),
        functions: &functions,
        records: image.cfi.first().map(record_offsets).unwrap_or_default(),
        before: None,
        shadowed: None,
    };
    checklist.check_index();
    checklist.check_personalities();
    for page in section.pages() {
        match page {
            Ok(page) => checklist.check_page(&page),
            Err(error) => checklist.found.push(error.into()),
        }
    }
    checklist.check_lsdas();
    checklist.check_coverage();
    checklist.found
}

/// How many bytes after the last function ld64 puts a sentinel.
const SENTINEL_EXCESS: u64 = 1;

struct Checklist<'c, 'a> {
    section: &'c Section<'a>,
    image: &'c Image<'c>,
    found: Vec<Violation>,
    /// The functions of `__eh_frame`, in order of address.
    functions: &'c Functions<'c>,
    /// Offsets of all records of `__eh_frame`.
    records: Vec<usize>,
    /// The entry before the current entry.
    before: Option<(SectionOffset, Entry)>,
    /// Set if the last entry so far of an address has no unwind information and shadows another entry. Holds the index
    /// of this finding in `found`, and the offset of the other entry.
    shadowed: Option<(usize, SectionOffset)>,
}

impl Checklist<'_, '_> {
    fn require(&mut self, holds: bool, violation: Violation) {
        if !holds {
            self.found.push(violation);
        }
    }

    fn check_index(&mut self) {
        let start = self.section.header().index_off.to_usize();
        let at = |number: usize, field: usize| SectionOffset(start + number * IndexEntry::SIZE + field);
        let mut before: Option<IndexEntry> = None;
        for (number, entry) in self.section.index().enumerate() {
            let (offset, function) = (at(number, 0), entry.function);
            let rises = before.is_none_or(|before| before.function < function);
            self.require(rises, Violation::new(offset, function, Fault::IndexOrder));
            before = Some(entry);
        }
        let last = self.section.num_pages();
        let Some(IndexEntry { function, page_off: page, .. }) = before else { return };
        self.require(page == 0, Violation::new(at(last, 4), function, Fault::SentinelPage { page }));
        if let Some(end) = self.image.code.end() {
            let is_within = self.address(function).0 <= end.0.saturating_add(SENTINEL_EXCESS);
            self.require(is_within, Violation::new(at(last, 0), function, Fault::SentinelBeyond { end }));
        }
    }

    fn check_personalities(&mut self) {
        let start = self.section.header().personalities_off.to_usize();
        for (number, slot) in self.section.personalities().enumerate() {
            let offset = Some(SectionOffset(start + number * PERSONALITY_SIZE));
            let is_slot = (self.image.is_slot)(self.address(slot));
            let fault = Fault::PersonalitySlot { slot };
            self.require(is_slot, Violation { offset, function: None, fault });
        }
    }

    fn check_page(&mut self, page: &Page<'_>) {
        let fault = Fault::NoEntries;
        self.require(!page.is_empty(), Violation { offset: Some(page.offset()), function: None, fault });
        for number in 0..page.len() {
            let entry = match page.entry(number) {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    self.found.push(error.into());
                    continue;
                }
                None => return,
            };
            let (offset, function, index) = (page.entry_offset(number), entry.start, page.base());
            let agrees = number != 0 || function == index;
            self.require(agrees, Violation::new(offset, function, Fault::FirstEntry { index }));
            self.check_order(&entry);
            self.check_start(&entry, offset);
            self.check_entry(&entry, offset);
            self.before = Some((offset, entry));
        }
    }

    /// Checks entries at the same address. Readers find only the last entry.
    fn check_order(&mut self, entry: &Entry) {
        let Some((offset, before)) = self.before.filter(|(_, before)| before.start == entry.start) else {
            self.shadowed = None;
            return;
        };
        let function = before.start;
        let fault = match (before.encoding.mode_number() == 0, entry.encoding.mode_number() == 0) {
            (false, true) => {
                self.shadowed = Some((self.found.len(), offset));
                Fault::NullShared { is_last: true }
            }
            (true, false) => {
                // Another entry with unwind information follows, so the entry before it was not the last.
                if let Some((at, offset)) = self.shadowed.take() {
                    self.found[at] = Violation::new(offset, function, Fault::Shared);
                }
                Fault::NullShared { is_last: false }
            }
            _ => Fault::Shared,
        };
        self.found.push(Violation::new(offset, function, fault));
    }

    /// Checks that an entry with unwind information starts where a function of the CFI does. It may also start within a
    /// function that has an entry before it.
    fn check_start(&mut self, entry: &Entry, offset: SectionOffset) {
        let start = self.address(entry.start);
        let Some(function) = self.functions.at(start).filter(|function| function.start < start) else {
            return;
        };
        let start = function.start;
        let has_entry = self.before.is_some_and(|(_, before)| self.address(before.start) >= start);
        let holds = has_entry || entry.encoding.mode_number() == 0;
        self.require(holds, Violation::new(offset, entry.start, Fault::WithinFunction { start }));
    }

    fn check_entry(&mut self, entry: &Entry, offset: SectionOffset) {
        let (arch, encoding) = (self.image.arch, entry.encoding);
        let function = entry.start;
        for error in [self.section.lsda(entry).err(), self.section.personality(entry).err()] {
            self.found.extend(error.map(Violation::from));
        }
        let code = self.image.code.starting_at(self.address(function));
        self.found.extend(check(arch, code, encoding).map(|fault| Violation::new(offset, function, fault)));
        if encoding.mode(arch) == Some(Mode::Dwarf) {
            self.check_dwarf(entry, offset);
        }
    }

    fn check_dwarf(&mut self, entry: &Entry, offset: SectionOffset) {
        let (function, record) = (entry.start, entry.encoding.dwarf_offset());
        let is_record = record == 0 || self.records.binary_search(&record.to_usize()).is_ok();
        if !is_record {
            self.found.push(Violation::new(offset, function, Fault::DwarfRecord { record }));
            return;
        }
        let fde = self.functions.at(self.address(function));
        let is_reached = fde.is_some_and(|fde| record.to_usize() <= self.functions.last_fde(fde).0);
        self.require(is_reached, Violation::new(offset, function, Fault::DwarfFde { record }));
    }

    fn check_lsdas(&mut self) {
        let mut entries = self.section.entries().flatten().peekable();
        let index: Vec<_> = self.section.index().collect();
        let (mut before, mut end_of_parts) = (None, 0);
        for page in 0..self.section.num_pages() {
            let (first, end) = (index[page].function, index[page + 1].function);
            // A part that goes back is not walked again, so the time is in proportion to the length of the table.
            let goes_on = index[page].lsda_off >= end_of_parts;
            let offset = SectionOffset(index[page].lsda_off.to_usize());
            self.require(goes_on, Violation::new(offset, first, Fault::LsdaOrder));
            if !goes_on {
                continue;
            }
            end_of_parts = end_of_parts.max(index[page + 1].lsda_off);
            let lsdas = match self.section.lsdas(page) {
                Ok(lsdas) => lsdas,
                Err(error) => {
                    self.found.push(error.into());
                    continue;
                }
            };
            for (number, LsdaEntry { function, .. }) in lsdas.enumerate() {
                let offset = SectionOffset(index[page].lsda_off.to_usize() + number * LsdaEntry::SIZE);
                let rises = before.is_none_or(|before| before < function);
                self.require(rises, Violation::new(offset, function, Fault::LsdaOrder));
                before = Some(function);
                let is_here = first <= function && function < end;
                self.require(is_here, Violation::new(offset, function, Fault::LsdaPage { page }));
                if !rises || !is_here {
                    continue;
                }
                while entries.next_if(|entry| entry.end <= function).is_some() {}
                let owner = entries.peek().filter(|entry| entry.start == function);
                let encoding = owner.map_or(Encoding::NONE, |entry| entry.encoding);
                let is_dwarf = encoding.mode(self.image.arch) == Some(Mode::Dwarf);
                let fault = Fault::LsdaOrphan { is_dwarf };
                self.require(encoding.has_lsda(), Violation::new(offset, function, fault));
            }
        }
    }

    fn check_coverage(&mut self) {
        let Some(sentinel) = self.section.index().last() else { return };
        let first = self.section.index().next().map_or(sentinel.function, |entry| entry.function);
        let (start, end) = (self.address(first), self.address(sentinel.function));
        for &function in self.image.function_starts {
            let is_covered = start <= function && function < end;
            let function = Some(ImageOffset(function.distance_from(self.image.base) as u32));
            self.require(is_covered, Violation { offset: None, function, fault: Fault::Uncovered });
        }
    }

    fn address(&self, offset: ImageOffset) -> Address {
        self.image.base.offset(offset.0.into())
    }
}
