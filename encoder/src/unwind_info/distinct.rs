//! Numbers for distinct encodings.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::compact_unwind::Encoding;

/// No number.
const FREE: u32 = u32::MAX;

/// How far from its place a number may lie before the table is hashed anew: far more than chance
/// ever brings about in a table that is at most half full.
const MAX_PROBES: usize = 128;

/// The distinct encodings of a table, numbered by first use: an open-addressing hash table of
/// numbers, linear probing. Keys that were chosen to collide cost a new hash, not more time.
#[derive(Debug)]
pub(super) struct Distinct {
    /// Encoding by number.
    pub(super) encodings: Vec<Encoding>,
    /// How many entries have it, by number.
    pub(super) counts: Vec<u32>,
    /// Numbers; a power of two of them.
    slots: Vec<u32>,
    seed: u64,
    last: (Encoding, u32),
}

impl Distinct {
    pub(super) fn new() -> Self {
        Self {
            encodings: Vec::new(),
            counts: Vec::new(),
            slots: vec![FREE; 256],
            seed: 0x9e37_79b9_7f4a_7c15,
            last: (Encoding(0), FREE),
        }
    }

    /// The encoding's number, for one more entry.
    #[inline]
    pub(super) fn number(&mut self, encoding: Encoding) -> u32 {
        if self.last.0 != encoding || self.last.1 == FREE {
            self.last = (encoding, self.find(encoding));
        }
        self.counts[self.last.1 as usize] += 1;
        self.last.1
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
                    self.counts[number as usize] = 0;
                    self.slots[at & mask] = number;
                    if self.encodings.len() * 2 > self.slots.len() {
                        self.grow();
                    }
                    return number;
                }
                if self.encodings[slot as usize] == encoding {
                    return slot;
                }
            }
            self.grow();
        }
    }

    /// Where the search for an encoding begins.
    #[inline]
    fn place(&self, encoding: Encoding) -> usize {
        let mixed = (u64::from(encoding.0) ^ self.seed >> 32).wrapping_mul(self.seed);
        ((mixed ^ mixed >> 32).wrapping_mul(self.seed | 1) >> 32) as usize & (self.slots.len() - 1)
    }

    /// Twice the slots, under another hash, as often as it takes for every number to be found.
    #[cold]
    fn grow(&mut self) {
        let mut size = self.slots.len() * 2;
        'larger: loop {
            self.seed = self.seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1) | 1;
            self.slots = Vec::new();
            self.slots = vec![FREE; size];
            for number in 0..self.encodings.len() {
                let start = self.place(self.encodings[number]);
                let mask = size - 1;
                let Some(at) = (start..start + MAX_PROBES).find(|at| self.slots[at & mask] == FREE) else {
                    size *= 2;
                    continue 'larger;
                };
                self.slots[at & mask] = number as u32;
            }
            return;
        }
    }
}
