//! Functions in the order of their addresses.

use alloc::vec;
use alloc::vec::Vec;

/// The addresses of functions, to be visited in ascending order; equal ones in the order given.
///
/// Functions of one image lie within a few hundred megabytes, so two passes of a radix sort order
/// them, the second of which is the visit itself.
#[derive(Clone, Debug)]
pub(super) struct Order {
    addresses: Vec<u64>,
    least: u64,
    /// Significant bits of an address's distance from the least.
    bits: u32,
}

/// Distances beyond these many bits are left to the standard library's sort.
const MAX_BITS: u32 = 28;

impl Order {
    pub(super) fn new(addresses: impl Iterator<Item = u64>) -> Self {
        let addresses: Vec<u64> = addresses.collect();
        let least = addresses.iter().copied().min().unwrap_or(0);
        let greatest = addresses.iter().copied().max().unwrap_or(0);
        Self { bits: 64 - (greatest - least).leading_zeros(), addresses, least }
    }

    /// Visits each function: its rank, its number, its address.
    pub(super) fn sorted<E>(&self, mut visit: impl FnMut(usize, u32, u64) -> Result<(), E>) -> Result<(), E> {
        let addresses = &self.addresses;
        if addresses.is_sorted() || self.bits > MAX_BITS || addresses.len() < 1 << 12 {
            let mut numbers: Vec<u32> = (0..addresses.len() as u32).collect();
            numbers.sort_by_key(|&number| addresses[number as usize]);
            let mut ranks = numbers.into_iter().enumerate();
            return ranks.try_for_each(|(rank, number)| visit(rank, number, addresses[number as usize]));
        }
        // By the lower half of the bits, then, in that order, by the upper half.
        let low_bits = self.bits / 2;
        let low = |address: u64| (address - self.least) as usize & ((1 << low_bits) - 1);
        let high = |address: u64| ((address - self.least) >> low_bits) as usize;
        let mut ranks = ranks_by(addresses, 1 << low_bits, low);
        let mut half_sorted = vec![0; addresses.len()];
        for (number, &address) in (0..).zip(addresses) {
            half_sorted[ranks.next(low(address))] = number;
        }
        let mut ranks = ranks_by(addresses, 1 << (self.bits - low_bits), high);
        for number in half_sorted {
            let address = addresses[number as usize];
            visit(ranks.next(high(address)), number, address)?;
        }
        Ok(())
    }
}

/// The next rank of each digit.
struct Ranks(Vec<u32>);

fn ranks_by(addresses: &[u64], digits: usize, digit: impl Fn(u64) -> usize) -> Ranks {
    let mut ranks = vec![0u32; digits];
    addresses.iter().for_each(|&address| ranks[digit(address)] += 1);
    let mut rank = 0;
    for slot in &mut ranks {
        rank += core::mem::replace(slot, rank);
    }
    Ranks(ranks)
}

impl Ranks {
    fn next(&mut self, digit: usize) -> usize {
        let rank = self.0[digit];
        self.0[digit] += 1;
        rank as usize
    }
}
