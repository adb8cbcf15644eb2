//! The common palette as other linkers choose it.

use alloc::vec::Vec;
use core::cmp::Reverse;

use cfipack_format::Arch;

use super::dedup_entries::DedupedEntries;
use super::entry::is_dwarf;

/// The most common encodings: no writer has more, so no reader has met more.
pub(super) const MAX_COMMON: usize = 127;

/// ld64.lld 23: every encoding, by use; of equally used ones the larger first.
pub(super) fn lld(table: &DedupedEntries) -> Vec<u32> {
    let all = (0..table.encodings.len() as u32).collect();
    first_by(all, |n| (Reverse(table.counts[n]), Reverse(table.encodings[n])))
}

/// Apple's linkers: encodings used twice and not in DWARF mode, by use; of equally used ones the
/// smaller first.
pub(super) fn apple(table: &DedupedEntries, arch: Arch) -> Vec<u32> {
    let eligible = |&n: &u32| table.counts[n as usize] >= 2 && !is_dwarf(table.encodings[n as usize], arch);
    let eligible = (0..table.encodings.len() as u32).filter(eligible).collect();
    first_by(eligible, |n| (Reverse(table.counts[n]), table.encodings[n]))
}

/// The first 127 numbers in the order of `key`.
pub(super) fn first_by<K: Ord>(mut numbers: Vec<u32>, key: impl Fn(usize) -> K) -> Vec<u32> {
    if numbers.len() > MAX_COMMON {
        numbers.select_nth_unstable_by_key(MAX_COMMON, |&n| key(n as usize));
        numbers.truncate(MAX_COMMON);
    }
    numbers.sort_unstable_by_key(|&n| key(n as usize));
    numbers
}
