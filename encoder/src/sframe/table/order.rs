//! Sorts FDEs by the addresses of their functions.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::Address;
use cfipack_format::pool::{Pool, map, part_len};
use cfipack_format::widen::{ToU64, ToUsize};

use crate::sframe::table::chains::Chains;
use crate::sframe::table::entries::Entry;

/// A start, in memory of any alignment.
pub(crate) type Start = [u8; 8];

/// Sorts FDEs of `N` bytes by the signed distances of their functions from the section. Starts are stored as
/// such distances. FDEs with equal distances keep the order of their entries. `S` returns the start of the entry
/// with a number.
///
/// One thread merges ascending runs of functions, if there are only a few runs. Otherwise the functions are put into
/// buckets of a few functions, because the functions of an image are spread about evenly. An FDE is written once, and then
/// moves at most to a place nearby.
pub(crate) struct Order<'e, S> {
    entries: &'e [Entry],
    start: S,
    section: Address,
    is_sorted: bool,
    /// The entries' numbers, if there is a single part, and they are a mixture of two or a few more sorted sequences.
    chains: Option<Chains>,
    /// The least key and the greatest key.
    least: u64,
    greatest: u64,
    /// The number of low bits that differ within a bucket.
    shift: u32,
}

/// With more buckets, counting takes longer than the sorting that it saves.
const MAX_BUCKET_BITS: u32 = 15;
/// With fewer functions, a thread costs more than it saves.
const LEAST_OF_A_THREAD: usize = 1 << 11;

/// The number of buckets of a group. Several threads write FDEs to groups and sort each group, which is nearly sorted.
const OF_A_GROUP: usize = 1 << 6;

/// Neighbouring groups.
struct Part<'o, const N: usize> {
    /// The number of FDEs of each group.
    groups: &'o [usize],
    /// The first rank of the groups.
    first_rank: usize,
    /// The FDEs of the groups.
    out: &'o mut [[u8; N]],
}

/// The distances of some entries, as keys.
struct Spread {
    is_sorted: bool,
    least: u64,
    greatest: u64,
}

impl<'e, S: Fn(usize) -> u64 + Sync> Order<'e, S> {
    pub(crate) fn new(pool: &dyn Pool, entries: &'e [Entry], start: S, section: Address) -> Self {
        let parts = parts_of(pool, entries.len());
        let is_single = parts.len() < 2;
        let spreads = map(pool, parts, |part| {
            let (mut least, mut greatest, mut last, mut is_sorted) = (u64::MAX, 0, 0, true);
            for number in part {
                let key = key(section, start(number));
                is_sorted &= last <= key;
                (least, greatest, last) = (least.min(key), greatest.max(key), key);
            }
            Spread { is_sorted, least, greatest }
        });
        let is_sorted = spreads.iter().all(|spread| spread.is_sorted)
            && spreads.windows(2).all(|pair| pair[0].greatest <= pair[1].least);
        let least = spreads.iter().map(|spread| spread.least).min().unwrap_or(u64::MAX);
        let greatest = spreads.iter().map(|spread| spread.greatest).max().unwrap_or(0);
        let spread = greatest.saturating_sub(least);
        let bits = entries.len().to_u64().checked_ilog2().unwrap_or(0).min(MAX_BUCKET_BITS);
        let shift = (u64::BITS - spread.leading_zeros()).saturating_sub(bits);
        let chains = (is_single && !is_sorted)
            .then(|| Chains::new(entries.len(), |number| key(section, start(number))))
            .flatten();
        Self { entries, start, section, is_sorted, chains, least, greatest, shift }
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
        let key = |number| key(self.section, (self.start)(number));
        let fde = |number: usize| fde(&self.entries[number], distance(key(number)));
        let parts = parts_of(pool, out.len());
        if let Some(chains) = &self.chains {
            let mut slots = out.iter_mut().enumerate();
            chains.merge(key, |number| {
                if let Some((rank, slot)) = slots.next() {
                    *slot = fde(number);
                    finish(rank, slot);
                }
            });
            return;
        }
        if self.is_sorted {
            let mut out = out;
            let parts = parts.into_iter().map(|part| {
                let out = out.split_off_mut(..part.len()).unwrap_or_default();
                (part, out)
            });
            map(pool, parts.collect(), |(part, out)| {
                for (slot, number) in out.iter_mut().zip(part) {
                    *slot = fde(number);
                    finish(number, slot);
                }
            });
            return;
        }
        if parts.len() < 2 {
            return self.write_buckets(out, &fde, &start, &finish);
        }
        // Each part counts its FDEs of each group, and then writes them to its slots in the groups.
        let groups = self.group(self.greatest) + 1;
        let counts = map(pool, parts.clone(), |part| {
            let mut counts = vec![0u32; groups];
            part.for_each(|number| counts[self.group(key(number))] += 1);
            counts
        });
        let (mut lens, mut rest) = (vec![0; groups], &mut *out);
        let mut slots: Vec<_> = parts.iter().map(|_| Vec::with_capacity(groups)).collect();
        for (group, len) in lens.iter_mut().enumerate() {
            for (slots, counts) in slots.iter_mut().zip(&counts) {
                let count = counts[group].to_usize();
                slots.push(rest.split_off_mut(..count).unwrap_or_default());
                *len += count;
            }
        }
        drop(counts);
        map(pool, parts.into_iter().zip(slots).collect(), |(part, mut slots)| {
            for number in part {
                if let Some(slot) = slots[self.group(key(number))].split_off_first_mut() {
                    *slot = fde(number);
                }
            }
        });
        let least = part_len(pool, out.len(), LEAST_OF_A_THREAD);
        map(pool, divide(&lens, least, out), |Part { first_rank, groups, out }| {
            let mut from = 0;
            for &len in groups {
                let group = &mut out[from..from + len];
                sort(group, &start);
                group.iter_mut().zip(first_rank + from..).for_each(|(fde, rank)| finish(rank, fde));
                from += len;
            }
        });
    }

    /// Writes all FDEs to buckets, and sorts each bucket.
    #[inline(always)]
    fn write_buckets<const N: usize>(
        &self,
        out: &mut [[u8; N]],
        fde: &impl Fn(usize) -> [u8; N],
        start: &impl Fn(&[u8; N]) -> i64,
        finish: &impl Fn(usize, &mut [u8; N]),
    ) {
        let mut ranks = vec![0u32; self.bucket(self.greatest) + 1];
        let bucket = |number| self.bucket(key(self.section, (self.start)(number)));
        (0..self.entries.len()).for_each(|number| ranks[bucket(number)] += 1);
        let mut rank = 0;
        for start in &mut ranks {
            rank += core::mem::replace(start, rank);
        }
        for number in 0..self.entries.len() {
            let rank = &mut ranks[bucket(number)];
            out[rank.to_usize()] = fde(number);
            *rank += 1;
        }
        // Each bucket's rank has moved from the start of the bucket to its end.
        let mut from = 0;
        for end in ranks {
            let bucket = &mut out[from..end.to_usize()];
            sort(bucket, start);
            bucket.iter_mut().zip(from..).for_each(|(fde, rank)| finish(rank, fde));
            from = end.to_usize();
        }
    }

    #[inline]
    fn bucket(&self, key: u64) -> usize {
        ((key - self.least) >> self.shift).to_usize()
    }

    /// Returns the group of a key's bucket.
    #[inline]
    fn group(&self, key: u64) -> usize {
        self.bucket(key) / OF_A_GROUP
    }
}

/// Cuts the groups, which have some numbers of FDEs, into parts of at least so many FDEs.
fn divide<'o, const N: usize>(
    lens: &'o [usize],
    least: usize,
    mut out: &'o mut [[u8; N]],
) -> Vec<Part<'o, N>> {
    let (mut parts, mut first, mut first_rank, mut rank) = (Vec::new(), 0, 0, 0);
    for (end, len) in (1..).zip(lens) {
        rank += len;
        if rank - first_rank >= least || end == lens.len() {
            let out = out.split_off_mut(..rank - first_rank).unwrap_or_default();
            parts.push(Part { groups: &lens[first..end], first_rank, out });
            (first, first_rank) = (end, rank);
        }
    }
    parts
}

/// Divides entries among the threads of a pool.
fn parts_of(pool: &dyn Pool, entries: usize) -> Vec<Range<usize>> {
    let part_len = part_len(pool, entries, LEAST_OF_A_THREAD);
    (0..entries).step_by(part_len).map(|first| first..entries.min(first + part_len)).collect()
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

/// Sorts a bucket of any length. This takes few comparisons if the bucket is sorted but for a few FDEs, as the
/// functions of an object are.
#[cold]
#[inline(never)]
fn sort_many<const N: usize>(bucket: &mut [[u8; N]], start: &impl Fn(&[u8; N]) -> i64) {
    bucket.sort_by_key(start);
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
