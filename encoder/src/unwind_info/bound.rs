//! Computes the most bytes that the smallest table can have, in whatever order its functions will lie.
//!
//! Take a common palette of K encodings. Let N be the number of entries, and R the number of entries with an encoding
//! that is not common. Fill compressed pages one after the other ([`fill`](super::fill::fill)). A page that is not
//! the last one ends for one of these reasons:
//!
//! - Its 1021 words are full. At least 1020 are used, each for an entry or for an encoding in the page's own palette.
//! - Its own palette is full. Then 256 - K of the R entries have brought an encoding, and they use twice as many
//!   words.
//! - The next function lies 2^24 bytes or more after the page's first function. This happens at most 255 times in 4
//!   GiB.
//!
//! All pages together have at most N + R words. This bounds the number of pages, and so the bytes: 4 for each word
//! and 24 for each page. Entries that are merged or have no address only make N and R smaller. A table with only
//! regular pages gives another bound: 8 bytes for each entry.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::Arch;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, IndexEntry, MAX_ENCODINGS, PageKind, RegularEntry,
    RegularPage,
};
use cfipack_format::widen::ToUsize;

use super::common_palette::MAX_COMMON;
use super::dedup_entries::DedupedEntries;
use super::encoding_ids::EncodingIds;
use super::entry::{Entry, is_dwarf};
use super::fill::{Run, fill};
use super::min_pages::Partition;
use super::split::{REGULAR_ENTRIES, WORDS};

/// The bytes of a compressed page's header and its index entry.
pub(super) const PAGE: usize = CompressedPage::SIZE + IndexEntry::SIZE;

/// How many distances of 2^24 bytes or more fit into 4 GiB.
const MAX_GAPS: usize = 255;

/// An encoding, and the personality that it will refer to.
pub(super) type Named = (Encoding, Option<NonZeroU32>);

/// The most bytes of pages, index entries and common palette together, and the pages that stay within them.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) len: usize,
    kind: PageKind,
    common: Vec<Named>,
}

impl Bound {
    pub(super) fn new(entries: &[Entry], personalities: &[NonZeroU32], arch: Arch) -> Self {
        let count = entries.len();
        let pages = count.div_ceil(REGULAR_ENTRIES);
        let len = RegularEntry::SIZE * count + (RegularPage::SIZE + IndexEntry::SIZE) * pages;
        let regular = Self { len, kind: PageKind::Regular, common: Vec::new() };
        let ranked = ranked(entries, personalities, arch);
        let has_lsdas = entries.iter().any(|entry| entry.lsda.is_some());
        let mut rare = count;
        let mut best = (compressed(count, rare, 0), 0);
        for (at, &(_, uses)) in ranked.iter().enumerate() {
            rare -= uses.to_usize();
            best = best.min((compressed(count, rare, at + 1), at + 1));
        }
        // If an LSDA turns out to have no address, 8 bytes are saved, but its entry may need a rare encoding in its
        // page.
        let len = best.0 + if has_lsdas { PAGE } else { 0 };
        if regular.len <= len {
            return regular;
        }
        let common = ranked[..best.1].iter().map(|&(named, _)| named).collect();
        Self { len, kind: PageKind::Compressed, common }
    }

    /// Returns pages that stay within the bound.
    pub(super) fn partition(&self, table: &DedupedEntries) -> Partition {
        let runs = [Run { first: 0, kind: self.kind }];
        fill(table, numbers(table, self.common.iter().copied()), &runs[..table.keys.len().min(1)])
    }
}

/// Returns the most bytes with a palette of `common` encodings, if `rare` of the entries do not use the palette.
fn compressed(entries: usize, rare: usize, common: usize) -> usize {
    let room = MAX_ENCODINGS - common;
    let words = entries + rare;
    let by_room = rare / room;
    let by_words = (words - 2 * room * by_room) / (WORDS - 1);
    let by_gaps = MAX_GAPS.min(entries.saturating_sub(1));
    let pages = entries.min(1 + by_room + by_words + by_gaps);
    ENCODING_SIZE * common + CompressedEntry::SIZE * words + PAGE * pages
}

/// Returns the most used encodings, at most 127 and none in DWARF mode, with the number of entries that use each.
fn ranked(entries: &[Entry], personalities: &[NonZeroU32], arch: Arch) -> Vec<(Named, u32)> {
    let mut ids = EncodingIds::new();
    for entry in entries.iter().filter(|entry| !is_dwarf(entry.encoding, arch)) {
        let at = personalities.iter().position(|&known| Some(known) == entry.personality);
        let number = at.map_or(0, |at| at as u32 + 1);
        ids.number(Encoding(entry.encoding.0 | number << 28));
    }
    // The most used encodings come first. Equally used encodings are sorted by their value.
    let mut ranked: Vec<u64> = Vec::with_capacity(ids.encodings.len());
    for (encoding, uses) in ids.encodings.into_iter().zip(ids.counts) {
        ranked.push(u64::from(!uses) << 32 | u64::from(encoding.0));
    }
    ranked.sort_unstable();
    ranked.truncate(MAX_COMMON);
    let ranked = ranked.into_iter();
    ranked.map(|rank| (named(Encoding(rank as u32), personalities), !(rank >> 32) as u32)).collect()
}

/// Separates the number of the personality from an encoding, and returns the personality for it.
pub(super) fn named(encoding: Encoding, personalities: &[NonZeroU32]) -> Named {
    let personality = personalities.get(usize::from(encoding.personality()).wrapping_sub(1));
    (encoding.with_personality(0), personality.copied())
}

/// Returns the numbers of these encodings in a table. An encoding that the table does not have is skipped.
pub(super) fn numbers(table: &DedupedEntries, common: impl Iterator<Item = Named>) -> Vec<u32> {
    // Each encoding with its number below.
    let mut known: Vec<u64> = Vec::with_capacity(table.encodings.len());
    for (encoding, number) in table.encodings.iter().zip(0..) {
        known.push(u64::from(encoding.0) << 32 | number);
    }
    known.sort_unstable();
    let mut numbers = Vec::new();
    for (encoding, personality) in common {
        let index = match personality {
            Some(personality) => match table.personalities.iter().position(|&known| known == personality) {
                Some(at) => at + 1,
                None => continue,
            },
            None => 0,
        };
        let encoding = u64::from(encoding.0 | (index as u32) << 28);
        let at = known.partition_point(|known| known >> 32 < encoding);
        if let Some(&found) = known.get(at)
            && found >> 32 == encoding
        {
            numbers.push(found as u32);
        }
    }
    numbers
}
