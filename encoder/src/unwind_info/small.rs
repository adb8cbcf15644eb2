//! The smallest table: which encodings are common, and where a page ends.
//!
//! # Page boundaries
//!
//! For a given common palette the boundaries are the best there are. Count in words of 4 bytes
//! and leave out what no choice changes: a word for every entry, another for every entry whose
//! encoding nothing else has. A compressed page then costs 6 (its header and index entry) and one
//! for each *repeated* encoding that is in its own palette; a regular page costs 5 and one for
//! each entry whose encoding is repeated or common. Both costs, and every limit on a page, only
//! grow with the page. So of all ways to spend the same, the one that gets further is at least as
//! good for all that follows, and it is enough to know how far each sum reaches: `reach[cost]`.
//! Pages start only at these places, a handful in a page's length as a rule.
//!
//! # Common palette
//!
//! An encoding earns a place if many pages use it, each page losing the room for one of its own.
//! Pages depend on the palette and the other way round, so candidates are tried: encodings ranked
//! by use, then by the number of pages that use them, each rank cut at several lengths, each
//! candidate held against the others by filling pages as far as they go. The best of them, and the
//! palettes of the other two layouts (which is why these are never smaller), get their best
//! boundaries; the smallest table wins.
//!
//! # How far from the optimum
//!
//! No table has fewer bytes than header, personalities, sentinel, LSDA index, 4 for each entry,
//! 4 for each distinct encoding and 20 for every 1021 entries. What is above that is known for
//! each table: the palettes' repetition and the pages beyond that number. Over the C++ and Rust
//! libraries of the tests it is 0.2 %, at most 7 % for a table that is mostly DWARF-mode entries,
//! where an encoding of its own for each entry allows no page to hold more than 256 of them.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use cfipack_format::Arch;
use cfipack_format::unwind_info::{MAX_COMPRESSED_OFFSET, MAX_ENCODINGS, PageKind};

use super::fold::Folded;
use super::palette;
use super::split::{Page, REGULAR_ENTRIES, WORDS};

/// Words that a compressed page costs before its entries: header 3, index entry 3.
const COMPRESSED: usize = 6;

/// Words that a regular page costs before its entries: header 2, index entry 3.
const REGULAR: usize = 5;

/// Lengths at which a ranking of encodings is cut.
const LENGTHS: [usize; 8] = [0, 4, 8, 16, 32, 48, 64, 96];

/// The common palette and the pages of the smallest table.
pub(super) fn choose(table: &Folded, arch: Arch) -> (Vec<u32>, Vec<Page>) {
    let mut cutter = Cutter::new(table);
    let own = cutter.search();
    let mut best = cutter.cut(&own);
    if best.pages.len() > 1 {
        for common in [palette::ld_prime(table, arch), palette::lld(table)] {
            let candidate = cutter.cut(&common);
            if candidate.cost < best.cost {
                best = candidate;
            }
        }
    }
    (best.common, best.pages)
}

/// A common palette with its best pages.
struct Cut {
    common: Vec<u32>,
    pages: Vec<Page>,
    /// Words, without those that no choice changes.
    cost: usize,
}

/// What an encoding costs in a compressed page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Nothing: it is in the common palette.
    Common,
    /// A word, always: only one entry has it.
    Once,
    /// A word, once in a page.
    Repeated,
}

/// How far a sum of words reaches.
#[derive(Clone, Copy)]
struct Reach {
    /// The first key that is not in a page yet.
    key: usize,
    /// What had been spent before the last page.
    from: usize,
    kind: PageKind,
}

/// Cuts a table into pages.
struct Cutter<'a> {
    table: &'a Folded,
    /// By number of the encoding.
    classes: Vec<Class>,
    /// By number: the last run of keys that met the encoding.
    met: Vec<u32>,
    run: u32,
    common: usize,
}

impl<'a> Cutter<'a> {
    fn new(table: &'a Folded) -> Self {
        let class = |&count: &u32| if count == 1 { Class::Once } else { Class::Repeated };
        let classes = table.counts.iter().map(class).collect();
        Self { table, classes, met: vec![0; table.encodings.len()], run: 0, common: 0 }
    }

    /// Makes these encodings the common ones.
    fn set_common(&mut self, common: &[u32]) {
        for (class, &count) in self.classes.iter_mut().zip(&self.table.counts) {
            *class = if count == 1 { Class::Once } else { Class::Repeated };
        }
        for &number in common {
            self.classes[number as usize] = Class::Common;
        }
        self.common = common.len();
    }

    /// The longest compressed page from a key on: the key after it, and what the page costs above
    /// [`COMPRESSED`]. `dearer` hears of every key that raises the cost, and the cost before it.
    fn compressed(&mut self, first: usize, mut dearer: impl FnMut(usize, usize)) -> (usize, usize) {
        self.run += 1;
        let keys = &self.table.keys[first..];
        let limit = keys[0].function.saturating_add(MAX_COMPRESSED_OFFSET);
        let mut words = WORDS;
        let mut room = MAX_ENCODINGS - self.common;
        let mut cost = 0;
        for (key, at) in keys.iter().zip(first..) {
            let number = key.encoding as usize;
            let local = match self.classes[number] {
                Class::Common => false,
                Class::Once => true,
                Class::Repeated => self.met[number] != self.run,
            };
            let needed = 1 + usize::from(local);
            if words < needed || (local && room == 0) || key.function > limit {
                return (at, cost);
            }
            words -= needed;
            if local {
                room -= 1;
                if self.classes[number] == Class::Repeated {
                    dearer(at, cost);
                    self.met[number] = self.run;
                    cost += 1;
                }
            }
        }
        (self.table.keys.len(), cost)
    }

    /// The longest regular page from a key on that costs no more than `most` above [`REGULAR`],
    /// in the same terms.
    fn regular(&self, first: usize, most: usize, mut dearer: impl FnMut(usize, usize)) -> (usize, usize) {
        let end = self.table.keys.len().min(first + REGULAR_ENTRIES);
        let mut cost = 0;
        for (key, at) in self.table.keys[first..end].iter().zip(first..) {
            if self.classes[key.encoding as usize] != Class::Once {
                if cost == most {
                    return (at, cost);
                }
                dearer(at, cost);
                cost += 1;
            }
        }
        (end, cost)
    }

    /// The best pages for a common palette.
    fn cut(&mut self, common: &[u32]) -> Cut {
        self.set_common(common);
        let end = self.table.keys.len();
        let mut reach = vec![Reach { key: 0, from: 0, kind: PageKind::Compressed }];
        let (mut cost, mut furthest) = (0, None);
        while reach[cost].key < end {
            let first = reach[cost].key;
            if furthest < Some(first) {
                furthest = Some(first);
                self.spend(&mut reach, cost, first);
            }
            cost += 1;
        }
        let pages = self.pages(&reach, cost);
        // A common encoding that only one entry has is a word here, and not one with its entry.
        let once = common.iter().filter(|&&number| self.table.counts[number as usize] == 1).count();
        Cut { common: common.to_vec(), pages, cost: cost + common.len() - once }
    }

    /// Notes how far one more page reaches that starts at a key, for all that it may cost.
    fn spend(&mut self, reach: &mut Vec<Reach>, spent: usize, first: usize) {
        let mut note = |kind: PageKind, page: usize, key: usize| {
            let cost = spent + page;
            if reach.len() <= cost {
                reach.resize(cost + 1, Reach { key: 0, from: 0, kind });
            }
            if reach[cost].key < key {
                reach[cost] = Reach { key, from: spent, kind };
            }
        };
        let (end, cost) =
            self.compressed(first, |key, cost| note(PageKind::Compressed, COMPRESSED + cost, key));
        note(PageKind::Compressed, COMPRESSED + cost, end);
        // Where a compressed page gets as far for as little, a regular one is of no use.
        let shorter = end < self.table.keys.len().min(first + REGULAR_ENTRIES);
        let most = if shorter { usize::MAX } else { cost };
        let (end, cost) = self.regular(first, most, |key, cost| note(PageKind::Regular, REGULAR + cost, key));
        note(PageKind::Regular, REGULAR + cost, end);
    }

    /// The pages that led to a cost.
    fn pages(&mut self, reach: &[Reach], mut cost: usize) -> Vec<Page> {
        let mut pages = Vec::new();
        while reach[cost].key > 0 {
            let Reach { key: end, from, kind } = reach[cost];
            let first = reach[from].key;
            let locals = match kind {
                PageKind::Regular => 0,
                PageKind::Compressed => self.locals(first, end),
            };
            pages.push(Page { kind, first: first as u32, count: (end - first) as u16, locals });
            cost = from;
        }
        pages.reverse();
        pages
    }

    /// Encodings that a page of these keys has for its own.
    fn locals(&mut self, first: usize, end: usize) -> u16 {
        self.run += 1;
        let mut locals = 0;
        for key in &self.table.keys[first..end] {
            let number = key.encoding as usize;
            if self.classes[number] != Class::Common && self.met[number] != self.run {
                self.met[number] = self.run;
                locals += 1;
            }
        }
        locals
    }
}

/// The search for a palette.
impl Cutter<'_> {
    /// The palette that does best where pages are filled as far as they go.
    fn search(&mut self) -> Vec<u32> {
        let repeated = (0..self.table.encodings.len() as u32)
            .filter(|&number| self.table.counts[number as usize] > 1)
            .collect();
        let table = self.table;
        let mut ranked = palette::first_by(repeated, |n| (Reverse(table.counts[n]), table.encodings[n]));
        let mut best = (usize::MAX, Vec::new());
        for _ in 0..2 {
            for length in LENGTHS.into_iter().filter(|&length| length < ranked.len()).chain([ranked.len()]) {
                let cost = self.fill(&ranked[..length], |_, _| {});
                if cost < best.0 {
                    best = (cost, ranked[..length].to_vec());
                }
            }
            ranked = self.by_pages(&best.1);
        }
        best.1
    }

    /// The encodings that at least two pages use, those of most pages first, with the pages that
    /// a palette leads to.
    fn by_pages(&mut self, common: &[u32]) -> Vec<u32> {
        let table = self.table;
        let mut users = vec![0_u32; table.encodings.len()];
        let mut last = vec![u32::MAX; table.encodings.len()];
        let mut page = 0;
        self.fill(common, |first, end| {
            for key in &table.keys[first..end] {
                let number = key.encoding as usize;
                if last[number] != page {
                    last[number] = page;
                    users[number] += 1;
                }
            }
            page += 1;
        });
        let shared = (0..users.len() as u32).filter(|&number| users[number as usize] > 1).collect();
        palette::first_by(shared, |n| (Reverse(users[n]), Reverse(table.counts[n]), table.encodings[n]))
    }

    /// Fills pages as far as they go, regular ones where they cost less an entry; tells `page` of
    /// each and returns the cost.
    fn fill(&mut self, common: &[u32], mut page: impl FnMut(usize, usize)) -> usize {
        self.set_common(common);
        let keys = self.table.keys.len();
        let (mut first, mut total) = (0, common.len());
        while first < keys {
            let (mut end, cost) = self.compressed(first, |_, _| {});
            let mut cost = COMPRESSED + cost;
            if end < keys.min(first + REGULAR_ENTRIES) {
                let (regular_end, regular_cost) = self.regular(first, usize::MAX, |_, _| {});
                let regular_cost = REGULAR + regular_cost;
                if regular_cost * (end - first) < cost * (regular_end - first) {
                    (end, cost) = (regular_end, regular_cost);
                }
            }
            page(first, end);
            total += cost;
            first = end;
        }
        total
    }
}
