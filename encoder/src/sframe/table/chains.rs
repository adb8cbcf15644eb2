//! Sorts numbers that are mixed from a few ascending sequences.
//!
//! The functions of a link are such a mixture: for each alignment, and for cold functions, linkers and compilers keep
//! the order of the input.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;

/// With more sequences, it takes longer to find the sequence of a number.
const MOST: usize = 8;

/// Numbers, divided into sequences with ascending keys. Among equal keys, a smaller number is in an earlier
/// sequence, or comes before in the same sequence.
pub(crate) struct Chains {
    /// The first number of each sequence.
    firsts: Vec<u32>,
    /// For each number, the next number of its sequence, or [`END`].
    next: Vec<u32>,
}

/// No number follows.
const END: u32 = u32::MAX;

impl Chains {
    /// Divides the numbers below `count`. Returns `None` if there are too many sequences.
    pub(crate) fn new(count: usize, key: impl Fn(usize) -> u64) -> Option<Self> {
        let (mut firsts, mut next) = (Vec::with_capacity(MOST), vec![END; count]);
        let (mut last, mut ends) = ([0; MOST], [END; MOST]);
        for number in 0..count {
            let key = key(number);
            // The last keys descend, so this is the greatest last key that the number can follow.
            let chain = if last[0] <= key { 0 } else { last.iter().position(|&last| last <= key)? };
            match next.get_mut(ends[chain].to_usize()) {
                Some(next) => *next = number as u32,
                None => firsts.push(number as u32),
            }
            (last[chain], ends[chain]) = (key, number as u32);
        }
        Some(Self { firsts, next })
    }

    /// Calls `take` with each number, in the order of keys. Numbers with equal keys are in order.
    #[inline(always)]
    pub(crate) fn merge(&self, key: impl Fn(usize) -> u64, mut take: impl FnMut(usize)) {
        let mut chains: Vec<_> = self.firsts.iter().map(|&first| (key(first.to_usize()), first)).collect();
        while let Some((least, others)) = least_of(&chains) {
            let mut number = chains[least].1.to_usize();
            loop {
                take(number);
                let next = self.next[number];
                if next == END {
                    chains.remove(least);
                    break;
                }
                number = next.to_usize();
                let key = key(number);
                if others.is_some_and(|others| others <= key) {
                    chains[least] = (key, next);
                    break;
                }
            }
        }
    }
}

/// Returns the first chain with the least key, and the least key of the other chains.
#[inline(always)]
fn least_of<T>(chains: &[(u64, T)]) -> Option<(usize, Option<u64>)> {
    let (mut least, mut least_key) = (0, chains.first()?.0);
    let mut others: Option<u64> = None;
    for (chain, &(key, _)) in chains.iter().enumerate().skip(1) {
        let mut greater = key;
        if key < least_key {
            greater = least_key;
            (least, least_key) = (chain, key);
        }
        others = Some(others.map_or(greater, |others| others.min(greater)));
    }
    Some((least, others))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{Chains, MOST};
    use cfipack_testkit::random::Random;

    /// Mixes sequences with few different keys, and compares with a stable sort.
    #[test]
    fn mixed_sequences_are_sorted() {
        let mut random = Random::new(1);
        for round in 0..200 {
            let sequences = random.below(MOST as u64) + 1;
            let mut last = [0; MOST];
            let keys: Vec<u64> = (0..random.below(200))
                .map(|_| {
                    let last = &mut last[random.below(sequences) as usize];
                    *last += random.below(5);
                    *last
                })
                .collect();
            let mut expected: Vec<usize> = (0..keys.len()).collect();
            expected.sort_by_key(|&number| keys[number]);
            let mut merged = Vec::new();
            Chains::new(keys.len(), |number| keys[number])
                .unwrap()
                .merge(|number| keys[number], |number| merged.push(number));
            assert_eq!(merged, expected, "{round}");
        }
        let descending = |number: usize| 100 - number as u64;
        assert!(Chains::new(MOST, descending).is_some() && Chains::new(MOST + 1, descending).is_none());
    }
}
