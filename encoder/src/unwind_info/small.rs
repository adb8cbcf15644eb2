//! Finds the smallest table: which encodings are common, and where each page ends.
//!
//! # Page boundaries
//!
//! For a given common palette, the boundaries are optimal ([`partition`]). We count words of 4 bytes and ignore costs
//! that no choice changes: a word for every entry, and a word for every encoding that only one entry has.
//!
//! - A compressed page then costs 6 words (its header and its index entry), and one word for each *repeated* encoding
//!   in its own palette. An encoding is repeated if several entries have it.
//! - A regular page costs 5 words, and one word for each entry with a repeated or common encoding.
//!
//! These costs, and every limit on a page, only grow with the page. So if two ways to cut pages cost the same, the
//! way that gets further is at least as good for the rest. It is enough to know the furthest key for each sum of
//! words. Pages only start at these keys, mostly a handful in the length of a page. If hundreds of equally frequent
//! encodings alternate, then nearly every key is such a place, and not all of them are tried.
//!
//! # Common palette
//!
//! A place in the palette pays off for an encoding if many pages use it. Pages depend on the palette, and the palette
//! depends on the pages. So we try candidates:
//!
//! 1. Rank the repeated encodings by use, and cut the ranking at several lengths. Compare these palettes by filling
//!    pages as far as they go. For a table of more than 131072 entries, only 16 pieces of it are filled.
//! 2. Rank the encodings by the number of pages that use them, in the best result so far, and try these palettes,
//!    too.
//! 3. Find the optimal boundaries for the best palette, and for the palettes of ld64.lld and of Apple's linkers. The
//!    smallest of these tables wins. So the table is never larger than the tables of these linkers.
//! 4. In a table of up to 1024 entries, an unnecessary place in the palette matters. There, fit palette and
//!    boundaries to each other until neither makes the table smaller ([`refined`]).
//!
//! # How far from the optimum
//!
//! The boundaries are optimal except for the tables named above. For palettes we have measured this: with up to 7
//! repeated encodings, all palettes can be tried, and 11017 of 11080 random tables of up to 3000 entries are optimal.
//! The other tables are at most 24 bytes larger.
//!
//! No table can be smaller than the sum of its header, personalities, sentinel and LSDA index, 4 bytes for each
//! entry, 4 bytes for each distinct encoding, and 20 bytes for every 1021 entries. Over 125 images in C, C++ and Rust
//! this layout is 0.2 % above this sum. The worst image above 4 KiB is 0.6 % above it. A table is much larger than
//! this sum only if thousands of encodings are equally rare, and we do not know how much any table could save then.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::Arch;
use cfipack_format::unwind_info::{MAX_COMPRESSED_OFFSET, MAX_ENCODINGS};
use cfipack_format::widen::{ToU64, ToUsize};

use super::common_palette::{self, first_by};
use super::dedup_entries::{DedupedEntries, Key};
use super::min_pages::{COMPRESSED, Partition, REGULAR, partition};
use super::refine::{Users, refined};
use super::split::{REGULAR_ENTRIES, WORDS, forward};

/// The lengths at which a ranking of encodings is cut.
const LENGTHS: [usize; 8] = [0, 4, 8, 16, 32, 48, 64, 96];

/// In a table with more keys than this, candidate palettes are tried on a sample.
const TRIED_KEYS: usize = 1 << 17;

/// In a table of up to this number of keys, palette and pages are fitted to each other. In so small a table an
/// unnecessary place in the palette matters.
const REFINED_KEYS: usize = 1 << 10;

/// The number of pieces in a sample.
const PIECES: usize = 16;

/// Returns the common palette and the pages of the smallest table.
pub(super) fn choose(table: &DedupedEntries, arch: Arch) -> Partition {
    let own = Search::new(table).best();
    let mut best = partition(table, own);
    if best.is_one_compressed_page() {
        return best;
    }
    let apple = common_palette::apple(table, arch);
    for (common, max_offset) in
        [(apple, MAX_COMPRESSED_OFFSET), (common_palette::lld(table), MAX_COMPRESSED_OFFSET - 1)]
    {
        let candidate = partition(table, common);
        if !candidate.exact {
            let pages = forward(table, &candidate.common, max_offset);
            best.take_smaller(Partition { common: candidate.common.clone(), pages, exact: false });
        }
        best.take_smaller(candidate);
    }
    if table.keys.len() <= REFINED_KEYS {
        best = refined(table, best);
        best.take_smaller(refined(table, partition(table, Vec::new())));
    }
    best
}

/// The cost of an encoding in a compressed page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// The encoding costs nothing, because it is in the common palette.
    Common,
    /// The encoding always costs a word, because only one entry has it.
    Once,
    /// The encoding costs a word for each page that uses it.
    Repeated,
}

/// The search for a palette.
struct Search<'a> {
    table: &'a DedupedEntries,
    /// The keys to try palettes on.
    pieces: Vec<&'a [Key]>,
    /// The class of each encoding, by number.
    classes: Vec<Class>,
    /// For each encoding, by number: the last page that has met it.
    met: Vec<u32>,
    page: u32,
}

impl<'a> Search<'a> {
    fn new(table: &'a DedupedEntries) -> Self {
        let classes = table.counts.iter();
        let classes = classes.map(|&count| if count == 1 { Class::Once } else { Class::Repeated }).collect();
        let keys = &table.keys[..];
        let pieces = if keys.len() <= TRIED_KEYS {
            vec![keys]
        } else {
            keys.chunks(keys.len().div_ceil(PIECES))
                .map(|keys| &keys[..keys.len().min(TRIED_KEYS / PIECES)])
                .collect()
        };
        Self { table, pieces, classes, met: vec![0; table.encodings.len()], page: 0 }
    }

    /// Returns the palette that is best if pages are filled as far as they go.
    fn best(mut self) -> Vec<u32> {
        let table = self.table;
        let repeated =
            (0..table.encodings.len() as u32).filter(|&number| table.counts[number.to_usize()] > 1).collect();
        let mut ranked = first_by(repeated, |n| [!table.counts[n], table.encodings[n].0, 0]);
        let mut best = (usize::MAX, Vec::new());
        for _ in 0..2 {
            let cuts = LENGTHS.into_iter().filter(|&length| length < ranked.len());
            for length in cuts.chain([ranked.len()]) {
                let cost = self.cost(&ranked[..length]);
                if cost < best.0 {
                    best = (cost, ranked[..length].to_vec());
                }
            }
            ranked = self.by_pages(&best.1);
        }
        best.1
    }

    /// Returns the words of the whole table with a common palette, estimated from the pieces.
    fn cost(&mut self, common: &[u32]) -> usize {
        let tried: usize = self.pieces.iter().map(|piece| piece.len()).sum();
        let cost =
            self.fill(common, |_| {}).to_u64() * self.table.keys.len().to_u64() / tried.max(1).to_u64();
        cost.to_usize() + common.len()
    }

    /// Returns the encodings that at least two pages use, the most used first. The pages are filled for the
    /// palette `common`.
    fn by_pages(&mut self, common: &[u32]) -> Vec<u32> {
        let mut users = Users::new(self.table);
        self.fill(common, |keys| users.add(keys));
        users.ranked(2)
    }

    /// Fills pages as far as they go, with a regular page wherever it costs less per entry. Calls `page` for each
    /// page, and returns the cost of all pages in the words that depend on the palette.
    fn fill(&mut self, common: &[u32], mut page: impl FnMut(&[Key])) -> usize {
        for &number in common {
            self.classes[number.to_usize()] = Class::Common;
        }
        let mut total = 0;
        for at in 0..self.pieces.len() {
            let mut keys = self.pieces[at];
            while !keys.is_empty() {
                let (mut end, cost) = self.compressed(keys, MAX_ENCODINGS - common.len());
                let mut cost = COMPRESSED + cost;
                if end < keys.len().min(REGULAR_ENTRIES) {
                    let regular_end = keys.len().min(REGULAR_ENTRIES);
                    let regular_cost = REGULAR + self.shared(&keys[..regular_end]);
                    if regular_cost * end < cost * regular_end {
                        (end, cost) = (regular_end, regular_cost);
                    }
                }
                page(&keys[..end]);
                total += cost;
                keys = &keys[end..];
            }
        }
        // All candidates for the palette are repeated encodings.
        for &number in common {
            self.classes[number.to_usize()] = Class::Repeated;
        }
        total
    }

    /// Finds the longest compressed page at the start of `keys`. Returns its number of keys, and the number of
    /// repeated encodings in its own palette.
    fn compressed(&mut self, keys: &[Key], mut room: usize) -> (usize, usize) {
        self.page += 1;
        let limit = keys[0].function.saturating_add(self.table.max_offset(MAX_COMPRESSED_OFFSET));
        let mut words = WORDS;
        let mut repeated = 0;
        for (key, at) in keys.iter().zip(0..) {
            let number = key.encoding.to_usize();
            let class = self.classes[number];
            let local = match class {
                Class::Common => false,
                Class::Once => true,
                Class::Repeated => self.met[number] != self.page,
            };
            let needed = 1 + usize::from(local);
            if words < needed || (local && room == 0) || key.function > limit {
                return (at, repeated);
            }
            words -= needed;
            if local {
                room -= 1;
                self.met[number] = self.page;
                repeated += usize::from(class == Class::Repeated);
            }
        }
        (keys.len(), repeated)
    }

    /// Returns the number of keys with a common or repeated encoding.
    fn shared(&self, keys: &[Key]) -> usize {
        keys.iter().filter(|key| self.classes[key.encoding.to_usize()] != Class::Once).count()
    }
}
