//! The most bytes of the smallest table, in whatever order its functions will lie.
//!
//! For a common palette of K encodings, let N be the entries, and R those of them whose encoding is not common. Fill
//! compressed pages one after the other ([`fill`](super::fill::fill)). A page that is not the last ends
//! - where its 1021 words are used: 1020 at least, each an entry or an encoding of the page's own;
//! - where its 256 - K own encodings are used, by so many of the R entries and twice as many words;
//! - where the next function lies 2^24 bytes or more after its first: 255 times in 4 GiB at most.
//!
//! Words are N + R at most, which bounds the number of pages and the bytes, 4 for a word and 24 for a page. Entries that
//! are merged, or have no address, only reduce N and R. Regular pages alone are another bound, 8 bytes an entry.

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

/// Bytes of a compressed page and its index entry before its words.
pub(super) const PAGE: usize = CompressedPage::SIZE + IndexEntry::SIZE;

/// Distances of 2^24 bytes or more that follow each other in 4 GiB.
const MAX_GAPS: usize = 255;

/// An encoding, and the personality that it will name.
pub(super) type Named = (Encoding, Option<NonZeroU32>);

/// The most bytes of pages, their index entries and the common palette, and how to need no more.
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
        // An LSDA that turns out to be none saves 8 bytes, but its entry may bring a rare encoding into its page.
        let len = best.0 + if has_lsdas { PAGE } else { 0 };
        if regular.len <= len {
            return regular;
        }
        let common = ranked[..best.1].iter().map(|&(named, _)| named).collect();
        Self { len, kind: PageKind::Compressed, common }
    }

    /// Pages that keep to the bound.
    pub(super) fn partition(&self, table: &DedupedEntries) -> Partition {
        let runs = [Run { first: 0, kind: self.kind }];
        fill(table, numbers(table, self.common.iter().copied()), &runs[..table.keys.len().min(1)])
    }
}

/// The most bytes with a palette of so many encodings, which so many `rare` entries do not use.
fn compressed(entries: usize, rare: usize, common: usize) -> usize {
    let room = MAX_ENCODINGS - common;
    let words = entries + rare;
    let by_room = rare / room;
    let by_words = (words - 2 * room * by_room) / (WORDS - 1);
    let by_gaps = MAX_GAPS.min(entries.saturating_sub(1));
    let pages = entries.min(1 + by_room + by_words + by_gaps);
    ENCODING_SIZE * common + CompressedEntry::SIZE * words + PAGE * pages
}

/// The up to 127 most used encodings outside DWARF mode, and how many entries use each.
fn ranked(entries: &[Entry], personalities: &[NonZeroU32], arch: Arch) -> Vec<(Named, u32)> {
    let mut ids = EncodingIds::new();
    for entry in entries.iter().filter(|entry| !is_dwarf(entry.encoding, arch)) {
        let known = |personality| personalities.iter().position(|&known| known == personality);
        let number = entry.personality.and_then(known).map_or(0, |at| at as u32 + 1);
        ids.number(Encoding(entry.encoding.0 | number << 28));
    }
    // The most used first, then by encoding.
    let rank = |(encoding, uses): (Encoding, u32)| u64::from(!uses) << 32 | u64::from(encoding.0);
    let mut ranked: Vec<u64> = ids.encodings.into_iter().zip(ids.counts).map(rank).collect();
    ranked.sort_unstable();
    ranked.truncate(MAX_COMMON);
    let named = |encoding: Encoding| {
        let personality = personalities.get(usize::from(encoding.personality()).wrapping_sub(1));
        (encoding.with_personality(0), personality.copied())
    };
    ranked.into_iter().map(|rank| (named(Encoding(rank as u32)), !(rank >> 32) as u32)).collect()
}

/// The numbers in a table of those encodings that it has.
pub(super) fn numbers(table: &DedupedEntries, common: impl Iterator<Item = Named>) -> Vec<u32> {
    let with_number = |(encoding, number): (&Encoding, u64)| u64::from(encoding.0) << 32 | number;
    let mut known: Vec<u64> = table.encodings.iter().zip(0..).map(with_number).collect();
    known.sort_unstable();
    let find = |(encoding, personality): Named| {
        let index = match personality {
            Some(personality) => table.personalities.iter().position(|&known| known == personality)? + 1,
            None => 0,
        };
        let encoding = u64::from(encoding.0 | (index as u32) << 28);
        let at = known.partition_point(|known| known >> 32 < encoding);
        known.get(at).filter(|&known| known >> 32 == encoding).map(|&known| known as u32)
    };
    common.filter_map(find).collect()
}
