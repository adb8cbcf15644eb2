//! Gives numbers to distinct encodings.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::widen::ToUsize;

/// A slot without a number.
const FREE: u32 = u32::MAX;

/// How far from its place a number may lie before the table is hashed again. A table that is at most half full never
/// gets there by chance.
const MAX_PROBES: usize = 128;

/// The distinct encodings of a table, numbered by first use. It is an open-addressing hash table with linear probing.
/// If someone chooses encodings that collide, the table gets a new hash and does not become slow.
///
/// Encodings in DWARF mode mostly come in the order of their FDEs, and each is new. So an encoding that is larger
/// than all before is appended to a sorted list, without a search.
#[derive(Debug)]
pub(super) struct EncodingIds {
    /// The encodings by number.
    pub(super) encodings: Vec<Encoding>,
    /// For each encoding, by number: how many entries use it.
    pub(super) counts: Vec<u32>,
    /// The numbers in the hash table. Its length is a power of two.
    slots: Vec<u32>,
    /// How many slots are in use.
    used: usize,
    seed: u64,
    last: (Encoding, u32),
    /// The numbers of encodings in DWARF mode that are not in `slots`, ascending by encoding.
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

    /// Returns the number of an encoding, and counts one more entry for it.
    #[inline]
    pub(super) fn number(&mut self, encoding: Encoding) -> u32 {
        if self.last.0 != encoding || self.last.1 == FREE {
            self.last = (encoding, self.find(encoding));
        }
        self.counts[self.last.1.to_usize()] += 1;
        self.last.1
    }

    /// Returns the number of an encoding in DWARF mode, and counts one more entry for it.
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

    /// Returns a new number that no other entry will get, even if it has the same encoding.
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

    /// Returns the slot where the search for an encoding starts.
    #[inline]
    fn place(&self, encoding: Encoding) -> usize {
        let mixed = (u64::from(encoding.0) ^ self.seed >> 32).wrapping_mul(self.seed);
        ((mixed ^ mixed >> 32).wrapping_mul(self.seed | 1) >> 32).to_usize() & (self.slots.len() - 1)
    }

    /// Makes a larger table with another hash. This is repeated until every number has a slot.
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

    /// Puts a number into a free slot near its place. Returns false if there is none.
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

    /// All encodings of this test belong into the same slot of a table of 65536.
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
