//! Sorts numbers that are mixed from a few ascending sequences.
//!
//! The functions of a link are such a mixture: for each alignment, and for cold functions, linkers and compilers keep
//! the order of the input.

use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;

/// With more sequences, it takes longer to find the sequence of a number.
const MOST: usize = 8;

/// Numbers, divided into sequences with ascending keys. Among equal keys, a smaller number is in an earlier
/// sequence, or comes before in the same sequence.
pub(crate) struct Chains {
    chains: [Vec<u32>; MOST],
    /// The least key and the greatest key, or `u64::MAX` and 0 without numbers.
    pub(crate) least: u64,
    pub(crate) greatest: u64,
}

impl Chains {
    /// Divides the numbers below `count`. Returns `None` if there are too many sequences.
    pub(crate) fn new(count: usize, key: impl Fn(usize) -> u64) -> Option<Self> {
        let (mut chains, mut last) = ([const { Vec::new() }; MOST], [0; MOST]);
        chains[0].reserve_exact(count);
        for number in 0..count {
            let key = key(number);
            // The last keys descend, so this is the greatest last key that the number can follow.
            let chain = if last[0] <= key { 0 } else { last.iter().position(|&last| last <= key)? };
            last[chain] = key;
            chains[chain].push(number as u32);
        }
        let firsts = chains.iter().filter_map(|chain| chain.first());
        let least = firsts.map(|first| key(first.to_usize())).min().unwrap_or(u64::MAX);
        Some(Self { chains, least, greatest: last[0] })
    }

    /// Returns whether all keys ascend.
    pub(crate) fn is_single(&self) -> bool {
        self.chains[1].is_empty()
    }

    /// Calls `take` with each number, in the order of keys. Numbers with equal keys are in order.
    #[inline(always)]
    pub(crate) fn merge(&self, key: impl Fn(usize) -> u64, mut take: impl FnMut(usize)) {
        let mut chains = Vec::with_capacity(MOST);
        for chain in &self.chains {
            if let [first, ..] = chain[..] {
                chains.push((key(first.to_usize()), &chain[..]));
            }
        }
        while let Some((least, others)) = least_of(&chains) {
            let (_, mut chain) = chains[least];
            loop {
                let [number, rest @ ..] = chain else {
                    chains.remove(least);
                    break;
                };
                take(number.to_usize());
                chain = rest;
                if let [next, ..] = chain
                    && let next = key(next.to_usize())
                    && others.is_some_and(|others| others <= next)
                {
                    chains[least] = (next, chain);
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
