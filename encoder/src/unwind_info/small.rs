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
//! good for all that follows, and it is enough to know how far each sum reaches ([`partition`]).
//! Pages start only at these places, a handful in a page's length as a rule. In a table where
//! hundreds of equally frequent encodings alternate, nearly every key is such a place; then not
//! all of them are tried.
//!
//! # Common palette
//!
//! An encoding earns a place if many pages use it, each page losing the room for one of its own.
//! Pages depend on the palette and the other way round, so candidates are tried: encodings ranked
//! by use, then by the number of pages that use them, each rank cut at several lengths, each
//! candidate compared with the others by filling pages as far as they go (of a table of more than
//! 131072 entries: in 16 pieces of it). The best of them, and the palettes of the other two
//! layouts, get their best boundaries, and the smallest of these tables wins; so it is never
//! larger than theirs. In a table of up to 1024 entries, where a palette too many shows, palette
//! and boundaries are then fitted to each other until neither makes it smaller.
//!
//! # How far from the optimum
//!
//! Boundaries: not at all, but for the tables named above. Palettes: where up to 7 encodings are
//! repeated, trying all of them has found 11017 of 11080 random tables of up to 3000 entries as
//! small as can be, the others at most 24 bytes larger. No table has fewer bytes than
//! header, personalities, sentinel, LSDA index, 4 for each entry, 4 for each distinct
//! encoding and 20 for every 1021 entries; over 125 images in C, C++ and Rust this layout is
//! 0.2 % above that, and 0.6 % in the one that is furthest of those above 4 KiB. Only where
//! thousands of encodings are as rare as each other is it much more, and how much of that any
//! table could save is not known.

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

/// Lengths at which a ranking of encodings is cut.
const LENGTHS: [usize; 8] = [0, 4, 8, 16, 32, 48, 64, 96];

/// Keys of which every candidate palette is tried; of a larger table, a sample.
const TRIED_KEYS: usize = 1 << 17;

/// Keys of which palette and pages are fitted to each other until neither gets smaller: few enough that a
/// palette too many is a noticeable part of the table.
const REFINED_KEYS: usize = 1 << 10;

/// Pieces of a sample.
const PIECES: usize = 16;

/// The common palette and the pages of the smallest table.
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
    /// Nothing: it is in the common palette.
    Common,
    /// A word, always: only one entry has it.
    Once,
    /// A word, once in a page.
    Repeated,
}

/// The search for a palette.
struct Search<'a> {
    table: &'a DedupedEntries,
    /// The keys to try palettes on.
    pieces: Vec<&'a [Key]>,
    /// By number of the encoding.
    classes: Vec<Class>,
    /// By number: the last page that met the encoding.
    met: Vec<u32>,
    page: u32,
}

impl<'a> Search<'a> {
    fn new(table: &'a DedupedEntries) -> Self {
        let class = |&count: &u32| if count == 1 { Class::Once } else { Class::Repeated };
        let keys = &table.keys[..];
        let pieces = if keys.len() <= TRIED_KEYS {
            vec![keys]
        } else {
            let piece = |keys: &'a [Key]| &keys[..keys.len().min(TRIED_KEYS / PIECES)];
            keys.chunks(keys.len().div_ceil(PIECES)).map(piece).collect()
        };
        Self {
            table,
            pieces,
            classes: table.counts.iter().map(class).collect(),
            met: vec![0; table.encodings.len()],
            page: 0,
        }
    }

    /// The palette that does best where pages are filled as far as they go.
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

    /// Words of the whole table with a common palette, estimated from the pieces.
    fn cost(&mut self, common: &[u32]) -> usize {
        let tried: usize = self.pieces.iter().map(|piece| piece.len()).sum();
        let cost =
            self.fill(common, |_| {}).to_u64() * self.table.keys.len().to_u64() / tried.max(1).to_u64();
        cost.to_usize() + common.len()
    }

    /// The encodings that at least two pages use, those of most pages first, with the pages that
    /// a palette leads to.
    fn by_pages(&mut self, common: &[u32]) -> Vec<u32> {
        let mut users = Users::new(self.table);
        self.fill(common, |keys| users.add(keys));
        users.ranked(2)
    }

    /// Fills pages as far as they go, regular ones where they cost less an entry; calls `page` for
    /// each and returns their cost in the words that depend on the palette.
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
        // All of them are repeated.
        for &number in common {
            self.classes[number.to_usize()] = Class::Repeated;
        }
        total
    }

    /// The longest compressed page at the head of some keys, and the repeated encodings that it
    /// has in its own palette.
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

    /// Keys whose encoding is common or repeated.
    fn shared(&self, keys: &[Key]) -> usize {
        keys.iter().filter(|key| self.classes[key.encoding.to_usize()] != Class::Once).count()
    }
}
