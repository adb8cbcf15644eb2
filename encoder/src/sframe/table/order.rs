//! Sorts FDEs by the addresses of their functions.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::Address;
use cfipack_format::widen::{ToU64, ToUsize};

use crate::sframe::parts::for_each;
use crate::sframe::table::entries::Entry;
use cfipack_format::pool::Pool;

/// A start, in memory of any alignment.
pub(crate) type Start = [u8; 8];

/// Sorts FDEs of `N` bytes by the signed distances of their functions from the section. Starts are stored as
/// such distances. FDEs with equal distances keep the order of their entries.
///
/// The functions of an image are spread about evenly. Most of the work is therefore done by putting them into
/// buckets of a few functions. An FDE is written once, and then moves at most to a place nearby.
pub(crate) struct Order<'e> {
    entries: &'e [Entry],
    /// The entries' starts, if they differ from the starts in the entries.
    starts: Option<&'e [Start]>,
    section: Address,
    is_sorted: bool,
    /// The least key and the greatest key.
    least: u64,
    greatest: u64,
    /// The number of low bits that differ within a bucket.
    shift: u32,
}

/// With more buckets, counting takes longer than the sorting that it saves.
const MAX_BUCKET_BITS: u32 = 15;
/// With fewer functions, a thread costs more than it saves.
const LEAST_OF_A_THREAD: usize = 1 << 14;

/// Neighbouring buckets.
struct Part<'o, const N: usize> {
    first_bucket: usize,
    /// The rank that the next FDE of each bucket gets.
    ranks: &'o mut [u32],
    /// The first bucket's first rank.
    first_rank: usize,
    /// The FDEs of the buckets.
    out: &'o mut [[u8; N]],
}

impl<'e> Order<'e> {
    pub(crate) fn new(entries: &'e [Entry], section: Address) -> Self {
        Self::with_starts(entries, None, section)
    }

    /// Takes entries. If there are `starts`, they replace the starts in the entries.
    pub(crate) fn with_starts(entries: &'e [Entry], starts: Option<&'e [Start]>, section: Address) -> Self {
        let (mut least, mut greatest, mut last, mut is_sorted) = (u64::MAX, 0, 0, true);
        for (_, start) in with_starts(entries, starts) {
            let key = key(section, start);
            is_sorted &= last <= key;
            (least, greatest, last) = (least.min(key), greatest.max(key), key);
        }
        let spread = greatest.saturating_sub(least);
        let bits = entries.len().to_u64().checked_ilog2().unwrap_or(0).min(MAX_BUCKET_BITS);
        let shift = (u64::BITS - spread.leading_zeros()).saturating_sub(bits);
        Self { entries, starts, section, is_sorted, least, greatest, shift }
    }

    /// Returns whether the entries are sorted already.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Returns the distances of the first function and of the last function, or `None` without functions.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        (!self.entries.is_empty()).then_some((distance(self.least), distance(self.greatest)))
    }

    /// Writes all FDEs, on the threads of a pool. `fde` makes the FDE of an entry at a distance, `start` reads
    /// the distance from an FDE, and `finish` writes the fields that depend on the rank.
    #[inline(always)]
    pub(crate) fn write<const N: usize>(
        &self,
        pool: &dyn Pool,
        out: &mut [[u8; N]],
        fde: impl Fn(&Entry, i64) -> [u8; N] + Sync,
        start: impl Fn(&[u8; N]) -> i64 + Sync,
        finish: impl Fn(usize, &mut [u8; N]) + Sync,
    ) {
        let fde = |entry, start| fde(entry, distance(key(self.section, start)));
        if self.is_sorted {
            let part_len = out.len().div_ceil(pool.threads().max(1)).max(LEAST_OF_A_THREAD);
            for_each(pool, out.chunks_mut(part_len).enumerate().collect(), |(part, out)| {
                let first = part * part_len;
                let entries = &self.entries[first..][..out.len()];
                let starts = self.starts.map(|starts| &starts[first..]);
                for ((slot, (entry, start)), rank) in
                    out.iter_mut().zip(with_starts(entries, starts)).zip(first..)
                {
                    *slot = fde(entry, start);
                    finish(rank, slot);
                }
            });
            return;
        }
        let mut ranks = self.bucket_starts();
        for_each(
            pool,
            self.parts(pool.threads(), &mut ranks, out),
            |Part { first_bucket, ranks, first_rank, out }| {
                for (entry, start) in with_starts(self.entries, self.starts) {
                    let Some(rank) = ranks.get_mut(self.bucket(start).wrapping_sub(first_bucket)) else {
                        continue;
                    };
                    out[(*rank).to_usize() - first_rank] = fde(entry, start);
                    *rank += 1;
                }
                // Each bucket's rank has moved from the start of the bucket to its end.
                let mut from = 0;
                for &mut end in ranks {
                    let end = end.to_usize() - first_rank;
                    let bucket = &mut out[from..end];
                    sort(bucket, &start);
                    bucket.iter_mut().zip(first_rank + from..).for_each(|(fde, rank)| finish(rank, fde));
                    from = end;
                }
            },
        );
    }

    /// Cuts the buckets into parts with about the same number of functions.
    fn parts<'o, const N: usize>(
        &self,
        threads: usize,
        mut ranks: &'o mut [u32],
        mut out: &'o mut [[u8; N]],
    ) -> Vec<Part<'o, N>> {
        let (mut first_bucket, mut first_rank) = (0, 0);
        let mut parts = Vec::new();
        for left in (2..=threads.min(self.entries.len() / LEAST_OF_A_THREAD)).rev() {
            let middle = first_rank + out.len() / left;
            let (here, after) = ranks.split_at_mut(ranks.partition_point(|&rank| rank.to_usize() < middle));
            let end = after.first().map_or(first_rank + out.len(), |&rank| rank.to_usize());
            let (fdes, others) = out.split_at_mut(end - first_rank);
            let buckets = here.len();
            parts.push(Part { first_bucket, ranks: here, first_rank, out: fdes });
            (first_bucket, first_rank, ranks, out) = (first_bucket + buckets, end, after, others);
        }
        parts.push(Part { first_bucket, ranks, first_rank, out });
        parts
    }

    #[inline]
    fn bucket(&self, start: u64) -> usize {
        self.bucket_of(key(self.section, start))
    }

    #[inline]
    fn bucket_of(&self, key: u64) -> usize {
        ((key - self.least) >> self.shift).to_usize()
    }

    fn bucket_starts(&self) -> Vec<u32> {
        let mut starts = vec![0u32; self.bucket_of(self.greatest) + 1];
        let entries = with_starts(self.entries, self.starts);
        entries.for_each(|(_, start)| starts[self.bucket(start)] += 1);
        let mut rank = 0;
        for start in &mut starts {
            rank += core::mem::replace(start, rank);
        }
        starts
    }
}

/// Sorts the FDEs of a bucket, which are usually few. Equal FDEs stay in order.
#[inline(always)]
fn sort<const N: usize>(bucket: &mut [[u8; N]], start: impl Fn(&[u8; N]) -> i64) {
    const FEW: usize = 16;
    if bucket.len() > FEW {
        return sort_many(bucket, &start);
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

/// Sorts a bucket of any length.
#[cold]
#[inline(never)]
fn sort_many<const N: usize>(bucket: &mut [[u8; N]], start: &impl Fn(&[u8; N]) -> i64) {
    bucket.sort_by_cached_key(|fde| start(fde) as u64 ^ 1 << 63);
}

/// Returns entries with their starts. If there are `starts`, they replace the starts in the entries.
#[inline(always)]
fn with_starts<'e>(
    entries: &'e [Entry],
    starts: Option<&'e [Start]>,
) -> impl Iterator<Item = (&'e Entry, u64)> {
    let mut starts = starts.map(<[Start]>::iter);
    entries.iter().map(move |entry| {
        let other = starts.as_mut().and_then(Iterator::next);
        (entry, other.map_or(entry.start, |start| u64::from_ne_bytes(*start)))
    })
}

/// Returns a number that sorts as the distance of a start from the section. 0 is the most negative distance.
#[inline]
fn key(section: Address, start: u64) -> u64 {
    start.wrapping_sub(section.0) ^ 1 << 63
}

/// Returns the distance that a key stands for.
#[inline]
fn distance(key: u64) -> i64 {
    (key ^ 1 << 63) as i64
}
