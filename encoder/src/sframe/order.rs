//! FDEs in the order of their addresses.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::Address;

use super::builder::Entry;

/// Puts FDEs of `N` bytes into the order of their functions' signed distances from the section, which
/// is how starts are stored; equal ones stay in the order of their entries.
///
/// Functions of one image are spread about evenly, so a bucket for every few of them takes most of the
/// work: an FDE is written once, and then moved, if at all, to a place next to it.
pub(super) struct Order<'e> {
    entries: &'e [Entry],
    section: Address,
    is_sorted: bool,
    /// The least key and the greatest.
    least: u64,
    greatest: u64,
    /// Bits by which keys of one bucket differ.
    shift: u32,
}

/// More buckets, and counting takes longer than what is saved.
const MAX_BUCKET_BITS: u32 = 15;

impl<'e> Order<'e> {
    pub(super) fn new(entries: &'e [Entry], section: Address) -> Self {
        let (mut least, mut greatest, mut last, mut is_sorted) = (u64::MAX, 0, 0, true);
        for entry in entries {
            let key = key(section, entry);
            is_sorted &= last <= key;
            (least, greatest, last) = (least.min(key), greatest.max(key), key);
        }
        let spread = greatest.saturating_sub(least);
        let bits = (entries.len() as u64).checked_ilog2().unwrap_or(0).min(MAX_BUCKET_BITS);
        let shift = (u64::BITS - spread.leading_zeros()).saturating_sub(bits);
        Self { entries, section, is_sorted, least, greatest, shift }
    }

    /// The distances of the first function and of the last, if there are any.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        (!self.entries.is_empty()).then_some((distance(self.least), distance(self.greatest)))
    }

    /// Writes all FDEs: `fde` gives that of an entry at a distance, `start` reads the distance again, and
    /// `finish` puts in what its rank decides.
    #[inline(always)]
    pub(super) fn write<const N: usize>(
        &self,
        out: &mut [[u8; N]],
        fde: impl Fn(&Entry, i64) -> [u8; N],
        start: impl Fn(&[u8; N]) -> i64,
        finish: impl Fn(usize, &mut [u8; N]),
    ) {
        let fde = |entry| fde(entry, distance(key(self.section, entry)));
        if self.is_sorted {
            for (rank, (slot, entry)) in out.iter_mut().zip(self.entries).enumerate() {
                *slot = fde(entry);
                finish(rank, slot);
            }
            return;
        }
        let mut ends = self.bucket_starts();
        for entry in self.entries {
            let rank = &mut ends[self.bucket(entry)];
            out[*rank as usize] = fde(entry);
            *rank += 1;
        }
        // Each bucket's start has become its end.
        let mut from = 0;
        for end in ends {
            let bucket = &mut out[from..end as usize];
            sort(bucket, &start);
            bucket.iter_mut().zip(from..).for_each(|(fde, rank)| finish(rank, fde));
            from = end as usize;
        }
    }

    #[inline]
    fn bucket(&self, entry: &Entry) -> usize {
        self.bucket_of(key(self.section, entry))
    }

    #[inline]
    fn bucket_of(&self, key: u64) -> usize {
        ((key - self.least) >> self.shift) as usize
    }

    fn bucket_starts(&self) -> Vec<u32> {
        let mut starts = vec![0u32; self.bucket_of(self.greatest) + 1];
        self.entries.iter().for_each(|entry| starts[self.bucket(entry)] += 1);
        let mut rank = 0;
        for start in &mut starts {
            rank += core::mem::replace(start, rank);
        }
        starts
    }
}

/// Sorts the FDEs of a bucket, mostly few; equal ones stay in order.
#[inline(always)]
fn sort<const N: usize>(bucket: &mut [[u8; N]], start: impl Fn(&[u8; N]) -> i64) {
    const FEW: usize = 16;
    if bucket.len() > FEW {
        bucket.sort_by_key(start);
        return;
    }
    for next in 1..bucket.len() {
        let fde = bucket[next];
        let mut at = next;
        while at > 0 && start(&bucket[at - 1]) > start(&fde) {
            bucket[at] = bucket[at - 1];
            at -= 1;
        }
        bucket[at] = fde;
    }
}

/// The distance from the section, from 0 for the most negative.
#[inline]
fn key(section: Address, entry: &Entry) -> u64 {
    entry.start.wrapping_sub(section.0) ^ 1 << 63
}

/// The distance that a key stands for.
#[inline]
fn distance(key: u64) -> i64 {
    (key ^ 1 << 63) as i64
}
