//! Finds the best page boundaries for a given common palette.
//!
//! This is a search for a shortest path over keys, counted in words of 4 bytes. For each sum of words it keeps the
//! furthest key that this sum can reach ([`Reach`]). The module [`small`](super::small) explains why this is enough.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::unwind_info::{
    ENCODING_SIZE, IndexEntry, MAX_COMPRESSED_OFFSET, MAX_ENCODINGS, PageKind,
};
use cfipack_format::widen::ToUsize;

use super::dedup_entries::{DedupedEntries, Key};
use super::split::{Page, REGULAR_ENTRIES, WORDS};

/// The words of a compressed page without its entries: 3 for its header, 3 for its index entry.
pub(super) const COMPRESSED: usize = 6;

/// The words of a regular page without its entries: 2 for its header, 3 for its index entry.
pub(super) const REGULAR: usize = 5;

/// How many page starts are tried: this number, plus one for every 8 keys. If a table needs more, then from there on
/// only one key in `STRIDE` is tried.
const STARTS: usize = 1 << 12;
const STRIDE: u32 = 64;

/// A common palette and the pages for it.
pub(super) struct Partition {
    pub(super) common: Vec<u32>,
    pub(super) pages: Vec<Page>,
    /// True if no other pages are better for this palette.
    pub(super) exact: bool,
}

impl Partition {
    /// Returns the bytes of the palette, the pages and their index entries.
    pub(super) fn size(&self) -> usize {
        let pages = self.pages.iter().map(|page| IndexEntry::SIZE + page.size());
        ENCODING_SIZE * self.common.len() + pages.sum::<usize>()
    }

    /// Returns whether the table is a single compressed page. Then no other palette or pages are smaller.
    pub(super) fn is_one_compressed_page(&self) -> bool {
        matches!(self.pages[..], [Page { kind: PageKind::Compressed, .. }])
    }

    pub(super) fn take_smaller(&mut self, other: Self) {
        if other.size() < self.size() {
            *self = other;
        }
    }
}

/// The furthest key that a sum of words can pay for.
#[derive(Clone, Copy)]
struct Reach {
    /// The first key that is not in a page yet.
    key: u32,
    /// The sum before the last page was added.
    from: u32,
    kind: PageKind,
}

/// A key with a repeated encoding: it is not common, and other keys have it, too.
struct Repeat {
    at: u32,
    /// The index of the last earlier key with the same encoding, plus 1, or 0 if there is no earlier key.
    after: u32,
}

/// A table that is being cut into pages.
struct Cutter<'a> {
    keys: &'a [Key],
    /// The last offset of an entry in a compressed page.
    max_offset: u32,
    /// All keys with repeated encodings, ascending.
    repeats: Vec<Repeat>,
    /// For each key, and for the end: how many earlier keys have an encoding that is not common and that no other key
    /// has.
    once: Vec<u32>,
    /// The most encodings in a page's own palette.
    room: usize,
    /// The number of distinct repeated encodings.
    distinct: usize,
}

/// Returns the best pages for a common palette of at most 127 encodings.
pub(super) fn partition(table: &DedupedEntries, common: Vec<u32>) -> Partition {
    let cutter = Cutter::new(table, &common);
    let end = table.keys.len() as u32;
    let mut reach = vec![Reach { key: 0, from: 0, kind: PageKind::Compressed }];
    let mut starts = table.keys.len() / 8 + STARTS;
    // `furthest` is the smallest sum that reaches the furthest key. `next` is the first key that may start a page.
    let (mut furthest, mut next) = (0, 0);
    let mut cost = 0;
    while reach[furthest].key < end {
        if reach[furthest].key < reach[cost].key {
            furthest = cost;
        }
        let first = reach[furthest].key;
        if first < end && (first >= next || cost + 1 == reach.len()) {
            cutter.spend(&mut reach, furthest, first.to_usize());
            starts = starts.saturating_sub(1);
            next = first + if starts > 0 { 1 } else { STRIDE };
            cost = furthest;
        }
        cost += 1;
    }
    let exact = starts > 0;
    let pages = cutter.pages(&reach, furthest);
    Partition { common, pages, exact }
}

impl<'a> Cutter<'a> {
    fn new(table: &'a DedupedEntries, common: &[u32]) -> Self {
        /// Marks a common encoding in `after`.
        const COMMON: u32 = u32::MAX;
        let mut after = vec![0; table.encodings.len()];
        for &number in common {
            after[number.to_usize()] = COMMON;
        }
        let mut once = Vec::with_capacity(table.keys.len() + 1);
        let mut repeats = Vec::new();
        let (mut count, mut distinct) = (0, 0);
        for (key, at) in table.keys.iter().zip(0..) {
            once.push(count);
            let number = key.encoding.to_usize();
            if after[number] == COMMON {
                continue;
            }
            if table.counts[number] == 1 {
                count += 1;
                continue;
            }
            distinct += usize::from(after[number] == 0);
            repeats.push(Repeat { at, after: after[number] });
            after[number] = at + 1;
        }
        once.push(count);
        let max_offset = table.max_offset(MAX_COMPRESSED_OFFSET);
        Self { keys: &table.keys, max_offset, repeats, once, room: MAX_ENCODINGS - common.len(), distinct }
    }

    /// Returns the number of keys in `first..end` with a common or repeated encoding.
    fn shared(&self, first: usize, end: usize) -> usize {
        end - first - (self.once[end] - self.once[first]).to_usize()
    }

    /// Returns whether a compressed page can hold the keys in `first..end`, if `repeated` of them add a repeated
    /// encoding to its palette.
    fn fits(&self, first: usize, end: usize, repeated: usize) -> bool {
        let entries = end - first;
        let locals = (self.once[end] - self.once[first]).to_usize() + repeated;
        entries + locals <= WORDS && locals <= self.room && self.reaches(first, end)
    }

    /// Returns whether all functions in `first..end` are close enough to the first function.
    fn reaches(&self, first: usize, end: usize) -> bool {
        let last = self.keys[end - 1].function;
        last <= self.keys[first].function.saturating_add(self.max_offset)
    }

    /// Returns the repeats from a key on.
    fn repeats_from(&self, first: usize) -> &[Repeat] {
        &self.repeats[self.repeats.partition_point(|repeat| repeat.at.to_usize() < first)..]
    }

    /// Finds the longest compressed page that starts at a key. Returns the key after the page, and its cost above
    /// [`COMPRESSED`]. This function calls `dearer` for every key that raises the cost, with the cost before it.
    fn compressed(&self, first: usize, mut dearer: impl FnMut(usize, usize)) -> (usize, usize) {
        let mut last = self.keys.len().min(first + WORDS);
        let mut low = first + 1;
        let mut cost = 0;
        for repeat in self.repeats_from(first) {
            let at = repeat.at.to_usize();
            if at >= last {
                break;
            }
            if repeat.after.to_usize() > first {
                continue;
            }
            if !self.fits(first, at + 1, cost + 1) {
                last = at;
                break;
            }
            if at > first {
                dearer(at, cost);
            }
            low = at + 1;
            cost += 1;
        }
        // Everything up to `low` fits. We search for the first key that does not.
        while low < last {
            let middle = (low + last).div_ceil(2);
            if self.fits(first, middle, cost) { low = middle } else { last = middle - 1 }
        }
        (low, cost)
    }

    /// Records how far we get with one more page that starts at a key, for each cost that the page may have.
    fn spend(&self, reach: &mut Vec<Reach>, spent: usize, first: usize) {
        let mut note = |kind: PageKind, page: usize, key: usize| {
            let cost = spent + page;
            if reach.len() <= cost {
                reach.resize(cost + 1, Reach { key: 0, from: 0, kind });
            }
            if reach[cost].key.to_usize() < key {
                reach[cost] = Reach { key: key as u32, from: spent as u32, kind };
            }
        };
        let (end, cost) =
            self.compressed(first, |key, cost| note(PageKind::Compressed, COMPRESSED + cost, key));
        note(PageKind::Compressed, COMPRESSED + cost, end);
        self.regular(first, end, cost, |key, cost| note(PageKind::Regular, REGULAR + cost, key));
    }

    /// Calls `page` with each regular page that may still be useful: the key after the page, and its cost above
    /// [`REGULAR`]. The longest compressed page ends before `end` and costs `cost`.
    fn regular(&self, first: usize, end: usize, cost: usize, mut page: impl FnMut(usize, usize)) {
        let last = self.keys.len().min(first + REGULAR_ENTRIES);
        let mut repeats = self.repeats_from(first).iter().peekable();
        let mut shared = 0;
        // As long as each encoding is new to the page, a regular page costs one word less.
        for at in first..last.min(end) {
            if self.once[at] == self.once[at + 1] {
                let repeat = repeats.next_if(|repeat| repeat.at.to_usize() == at);
                if repeat.is_none_or(|repeat| repeat.after.to_usize() > first) {
                    break;
                }
                shared += 1;
            }
            page(at + 1, shared);
        }
        if end >= last || self.two_are_cheaper(first, end, last, cost) {
            return;
        }
        let mut shared = self.shared(first, end);
        for at in end..last {
            shared += usize::from(self.once[at] == self.once[at + 1]);
            page(at + 1, shared);
        }
    }

    /// Returns whether two compressed pages always do as well as a regular page that ends before `last`. The first of
    /// them is the longest compressed page.
    fn two_are_cheaper(&self, first: usize, end: usize, last: usize, cost: usize) -> bool {
        let second = last - end;
        let two = 2 * COMPRESSED + cost + second.min(self.distinct);
        let holds = second <= self.room && 2 * second <= WORDS && self.reaches(end, last);
        holds && two <= REGULAR + self.shared(first, end)
    }

    /// Returns the pages that led to a cost.
    fn pages(&self, reach: &[Reach], mut cost: usize) -> Vec<Page> {
        let mut pages = Vec::new();
        while reach[cost].key > 0 {
            let Reach { key: end, from, kind } = reach[cost];
            let first = reach[from.to_usize()].key;
            let locals = match kind {
                PageKind::Regular => 0,
                PageKind::Compressed => self.locals(first, end),
            };
            pages.push(Page::new(kind, first, (end - first) as u16, locals));
            cost = from.to_usize();
        }
        pages.reverse();
        pages
    }

    /// Returns how many encodings a compressed page of these keys has in its own palette.
    fn locals(&self, first: u32, end: u32) -> u16 {
        let page = self.repeats_from(first.to_usize()).iter().take_while(|repeat| repeat.at < end);
        let repeated = page.filter(|repeat| repeat.after <= first).count() as u32;
        (self.once[end.to_usize()] - self.once[first.to_usize()] + repeated) as u16
    }
}
