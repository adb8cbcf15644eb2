//! Numbers for distinct encodings.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::widen::ToUsize;

/// No number.
const FREE: u32 = u32::MAX;

/// The distance from its place at which a number may lie before the table is hashed again: far more than chance
/// ever brings about in a table that is at most half full.
const MAX_PROBES: usize = 128;

/// The distinct encodings of a table, numbered by first use: an open-addressing hash table of
/// numbers, linear probing. Keys that were chosen to collide cost a new hash, not more time.
///
/// DWARF-mode encodings mostly come in the order of their FDEs, each one new: those that are
/// larger than all before stand in a list, which is sorted without being searched.
#[derive(Debug)]
pub(super) struct EncodingIds {
    /// Encoding by number.
    pub(super) encodings: Vec<Encoding>,
    /// The number of entries of each, by number.
    pub(super) counts: Vec<u32>,
    /// Numbers; a power of two of them.
    slots: Vec<u32>,
    /// Slots that are not free.
    used: usize,
    seed: u64,
    last: (Encoding, u32),
    /// Numbers of DWARF-mode encodings, each larger than the one before; not in `slots`.
    rising: Vec<u32>,
}

impl EncodingIds {
    pub(super) fn new() -> Self {
        Self {
            encodings: Vec::new(),
            counts: Vec::new(),
            slots: vec![FREE; 256],
            used: 0,
            seed: 0x9e37_79b9_7f4a_7c15,
            last: (Encoding(0), FREE),
            rising: Vec::new(),
        }
    }

    /// The encoding's number, for one more entry.
    #[inline]
    pub(super) fn number(&mut self, encoding: Encoding) -> u32 {
        if self.last.0 != encoding || self.last.1 == FREE {
            self.last = (encoding, self.find(encoding));
        }
        self.counts[self.last.1.to_usize()] += 1;
        self.last.1
    }

    /// The number of an encoding in DWARF mode.
    #[inline]
    pub(super) fn dwarf_number(&mut self, encoding: Encoding) -> u32 {
        let known = |&number: &u32| self.encodings[number.to_usize()];
        if self.rising.last().map(known) < Some(encoding) {
            let number = self.own_number(encoding);
            self.rising.push(number);
            return number;
        }
        match self.rising.binary_search_by_key(&encoding, known) {
            Ok(at) => {
                self.counts[self.rising[at].to_usize()] += 1;
                self.rising[at]
            }
            Err(_) => self.number(encoding),
        }
    }

    /// A number that no other entry will get, whatever its encoding.
    pub(super) fn own_number(&mut self, encoding: Encoding) -> u32 {
        self.encodings.push(encoding);
        self.counts.push(1);
        self.encodings.len() as u32 - 1
    }

    fn find(&mut self, encoding: Encoding) -> u32 {
        loop {
            let mask = self.slots.len() - 1;
            let start = self.place(encoding);
            for at in start..start + MAX_PROBES {
                let slot = self.slots[at & mask];
                if slot == FREE {
                    let number = self.own_number(encoding);
                    self.counts[number.to_usize()] = 0;
                    self.slots[at & mask] = number;
                    self.used += 1;
                    if self.used * 2 > self.slots.len() {
                        self.grow();
                    }
                    return number;
                }
                if self.encodings[slot.to_usize()] == encoding {
                    return slot;
                }
            }
            self.grow();
        }
    }

    /// The start of the search for an encoding.
    #[inline]
    fn place(&self, encoding: Encoding) -> usize {
        let mixed = (u64::from(encoding.0) ^ self.seed >> 32).wrapping_mul(self.seed);
        ((mixed ^ mixed >> 32).wrapping_mul(self.seed | 1) >> 32).to_usize() & (self.slots.len() - 1)
    }

    /// Twice the slots, under another hash, as often as it takes for every number to be found.
    #[cold]
    fn grow(&mut self) {
        let mut old = core::mem::take(&mut self.slots);
        old.retain(|&number| number != FREE);
        let mut size = (old.len() * 2).next_power_of_two() * 2;
        loop {
            self.seed = self.seed.wrapping_mul(0xd134_2543_de82_ef95) | 1;
            self.slots = vec![FREE; size];
            if old.iter().all(|&number| self.insert(number)) {
                return;
            }
            size *= 2;
        }
    }

    /// Puts a number into a free slot, if there is one near enough.
    fn insert(&mut self, number: u32) -> bool {
        let start = self.place(self.encodings[number.to_usize()]);
        let mask = self.slots.len() - 1;
        let Some(at) = (start..start + MAX_PROBES).find(|at| self.slots[at & mask] == FREE) else {
            return false;
        };
        self.slots[at & mask] = number;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings that all belong into one slot of a table of 65536.
    #[test]
    fn keys_that_collide_keep_their_numbers() {
        let mut ids = EncodingIds::new();
        let before = EncodingIds { slots: vec![FREE; 1 << 16], ..EncodingIds::new() };
        let collide = |&encoding: &Encoding| before.place(encoding) == 7;
        let keys: Vec<_> = (0..1 << 26).map(Encoding).filter(collide).take(3 * MAX_PROBES).collect();
        assert_eq!(keys.len(), 3 * MAX_PROBES);
        for round in 1..=2 {
            for (number, &key) in (0..).zip(&keys) {
                assert_eq!(ids.number(key), number);
                assert_eq!(ids.counts[number as usize], round);
            }
        }
        assert_eq!(ids.encodings, keys);
        assert!(ids.slots.len() <= 16 * keys.len(), "{} slots", ids.slots.len());
    }

    #[test]
    fn dwarf_mode_in_any_order() {
        let mut ids = EncodingIds::new();
        let order = [5, 9, 9, 7, 30, 5, 7, 12, 30].map(|offset| Encoding(0x0400_0000 | offset));
        let numbers = order.map(|encoding| ids.dwarf_number(encoding));
        assert_eq!(numbers, [0, 1, 1, 2, 3, 0, 2, 4, 3]);
        assert_eq!(ids.counts, [2, 2, 2, 2, 1]);
    }
}
