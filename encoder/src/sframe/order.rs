//! Functions in the order of their addresses.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::Address;

use super::builder::Entry;

/// The functions of an index, to be visited in ascending order of their signed distance from the
/// section, which is how starts are stored; equal ones in the order given.
///
/// Functions of one image lie within a few hundred megabytes, so two passes of a radix sort order
/// them, the second of which is the visit itself.
#[derive(Clone, Debug)]
pub(super) struct Order<'e> {
    entries: &'e [Entry],
    section: Address,
    /// The least key.
    least: u64,
    /// Significant bits of a key's distance from the least.
    bits: u32,
}

/// Distances beyond these many bits are left to the standard library's sort.
const MAX_BITS: u32 = 28;

impl<'e> Order<'e> {
    pub(super) fn new(entries: &'e [Entry], section: Address) -> Self {
        let mut order = Self { entries, section, least: 0, bits: 0 };
        order.least = entries.iter().map(|entry| order.key(entry)).min().unwrap_or(0);
        let greatest = entries.iter().map(|entry| order.key(entry)).max().unwrap_or(0);
        order.bits = 64 - (greatest - order.least).leading_zeros();
        order
    }

    /// The distance from the section, from 0 for the most negative.
    #[inline]
    fn key(&self, entry: &Entry) -> u64 {
        entry.start.wrapping_sub(self.section.0) ^ 1 << 63
    }

    /// Visits each function with its rank.
    pub(super) fn sorted<E>(&self, mut visit: impl FnMut(usize, &Entry) -> Result<(), E>) -> Result<(), E> {
        let entries = self.entries;
        if entries.is_sorted_by_key(|entry| self.key(entry)) {
            return entries.iter().enumerate().try_for_each(|(rank, entry)| visit(rank, entry));
        }
        if self.bits > MAX_BITS || entries.len() < 1 << 12 {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by_key(|entry| self.key(entry));
            return sorted.into_iter().enumerate().try_for_each(|(rank, entry)| visit(rank, entry));
        }
        // By the lower half of the bits, then, in that order, by the upper half.
        let low_bits = self.bits / 2;
        let low = |entry: &Entry| (self.key(entry) - self.least) as usize & ((1 << low_bits) - 1);
        let high = |entry: &Entry| ((self.key(entry) - self.least) >> low_bits) as usize;
        let mut ranks = Ranks::new(entries, 1 << low_bits, low);
        let mut half_sorted = vec![0u32; entries.len()];
        for (number, entry) in (0..).zip(entries) {
            half_sorted[ranks.next(low(entry))] = number;
        }
        let mut ranks = Ranks::new(entries, 1 << (self.bits - low_bits), high);
        for number in half_sorted {
            let entry = &entries[number as usize];
            visit(ranks.next(high(entry)), entry)?;
        }
        Ok(())
    }
}

/// The next rank of each digit.
struct Ranks(Vec<u32>);

impl Ranks {
    fn new(entries: &[Entry], digits: usize, digit: impl Fn(&Entry) -> usize) -> Self {
        let mut ranks = vec![0u32; digits];
        entries.iter().for_each(|entry| ranks[digit(entry)] += 1);
        let mut rank = 0;
        for slot in &mut ranks {
            rank += core::mem::replace(slot, rank);
        }
        Self(ranks)
    }

    fn next(&mut self, digit: usize) -> usize {
        let rank = self.0[digit];
        self.0[digit] += 1;
        rank as usize
    }
}
