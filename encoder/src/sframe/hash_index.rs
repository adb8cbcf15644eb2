//! A hash table of indices into something else.

use alloc::vec;
use alloc::vec::Vec;

/// Finds the index of an item by its hash; the items themselves lie elsewhere.
#[derive(Clone, Debug)]
pub(super) struct HashIndex {
    /// Hash and index plus one; an empty slot has the index 0. The length is a power of two.
    slots: Vec<(u32, u32)>,
    len: usize,
}

impl HashIndex {
    pub(super) fn new() -> Self {
        Self { slots: vec![(0, 0); 256], len: 0 }
    }

    /// The index with this hash that `is_equal` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_equal: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (slot_hash, index) = self.slots[at & mask];
            if index == 0 {
                return None;
            }
            if slot_hash == hash && is_equal(index - 1) {
                return Some(index - 1);
            }
            at += 1;
        }
    }

    /// The index that [`find`](Self::find) looks at first, if any has this hash.
    #[inline(always)]
    pub(super) fn first(&self, hash: u32) -> Option<u32> {
        let (slot_hash, index) = self.slots[hash as usize & (self.slots.len() - 1)];
        if slot_hash == hash { index.checked_sub(1) } else { None }
    }

    /// Makes room for this many indices at once.
    pub(super) fn reserve(&mut self, indices: usize) {
        let len = ((self.len + indices) * 3 / 2).next_power_of_two();
        if len > self.slots.len() {
            self.grow_to(len);
        }
    }

    /// Adds an index that is not there yet.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, index: u32) {
        if self.len * 3 >= self.slots.len() * 2 {
            self.grow_to(self.slots.len() * 2);
        }
        self.len += 1;
        place(&mut self.slots, (hash, index + 1));
    }

    #[cold]
    fn grow_to(&mut self, len: usize) {
        let mut slots = vec![(0, 0); len];
        self.slots.iter().filter(|(_, index)| *index != 0).for_each(|&slot| place(&mut slots, slot));
        self.slots = slots;
    }
}

fn place(slots: &mut [(u32, u32)], slot: (u32, u32)) {
    let mask = slots.len() - 1;
    let mut at = slot.0 as usize & mask;
    while slots[at].1 != 0 {
        at = (at + 1) & mask;
    }
    slots[at] = slot;
}

/// Hashes bytes; `seed` keeps anybody from preparing bytes whose hashes collide.
#[inline]
pub(super) fn hash(seed: u64, bytes: &[u8]) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, [a, b]: [u64; 2]| {
        let product = u128::from(state ^ a) * u128::from(seed ^ b ^ ODD);
        product as u64 ^ (product >> 64) as u64
    };
    let words = |chunk: &[u8; 16]| {
        let both = u128::from_le_bytes(*chunk);
        [both as u64, (both >> 64) as u64]
    };
    let mut state = seed.wrapping_add((bytes.len() as u64).wrapping_mul(0xff51_afd7_ed55_8ccd));
    if let Some(tail) = bytes.last_chunk::<16>() {
        let (chunks, _) = bytes.as_chunks::<16>();
        for chunk in chunks {
            state = mix(state, words(chunk));
        }
        state = mix(state, words(tail));
    } else if let (Some(head), Some(tail)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        state = mix(state, [u64::from_le_bytes(*head), u64::from_le_bytes(*tail)]);
    } else {
        let word = bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        state = mix(state, [word, 0]);
    }
    (state ^ state >> 32) as u32
}
