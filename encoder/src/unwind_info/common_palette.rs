//! Chooses the common palette as other linkers choose it.

use alloc::vec::Vec;

use cfipack_format::Arch;
use cfipack_format::widen::ToUsize;

use super::dedup_entries::DedupedEntries;
use super::entry::is_dwarf;

/// The most encodings in a common palette. No linker writes more, so no reader has been tested with more.
pub(super) const MAX_COMMON: usize = 127;

/// Returns the palette of ld64.lld 23: all encodings, the most used first. If two are used equally often, the larger
/// value comes first.
pub(super) fn lld(table: &DedupedEntries) -> Vec<u32> {
    let all = (0..table.encodings.len() as u32).collect();
    first_by(all, |n| [!table.counts[n], !table.encodings[n].0, 0])
}

/// Returns the palette of Apple's linkers: encodings that are used at least twice and are not in DWARF mode, the most
/// used first. If two are used equally often, the smaller value comes first.
pub(super) fn apple(table: &DedupedEntries, arch: Arch) -> Vec<u32> {
    first_by(used_twice(table, arch), |n| [!table.counts[n], table.encodings[n].0, 0])
}

/// Returns the palette of Zig's linker: as [`apple`], but if two are used equally often, the one that is used first
/// comes first.
pub(super) fn zig(table: &DedupedEntries, arch: Arch) -> Vec<u32> {
    // Encodings are numbered by first use.
    first_by(used_twice(table, arch), |n| [!table.counts[n], 0, 0])
}

/// Returns the encodings that are used at least twice and are not in DWARF mode.
fn used_twice(table: &DedupedEntries, arch: Arch) -> Vec<u32> {
    let numbers = 0..table.encodings.len() as u32;
    let is_common = |n: usize| table.counts[n] >= 2 && !is_dwarf(table.encodings[n], arch);
    numbers.filter(|number| is_common(number.to_usize())).collect()
}

/// Returns the first 127 numbers in the order of `key`. Use `!n` in a key to sort descending by `n`.
pub(super) fn first_by(numbers: Vec<u32>, key: impl Fn(usize) -> [u32; 3]) -> Vec<u32> {
    // All rankings use the same type, because sorting another type would add 10 kB of code.
    let mut ranked: Vec<_> = numbers.into_iter().map(|n| (key(n.to_usize()), n)).collect();
    if ranked.len() > MAX_COMMON {
        ranked.select_nth_unstable(MAX_COMMON);
        ranked.truncate(MAX_COMMON);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, number)| number).collect()
}
