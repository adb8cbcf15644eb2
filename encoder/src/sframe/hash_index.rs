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

    /// Adds an index that is not there yet.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, index: u32) {
        if self.len * 3 >= self.slots.len() * 2 {
            self.grow();
        }
        self.len += 1;
        place(&mut self.slots, (hash, index + 1));
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![(0, 0); self.slots.len() * 2];
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
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(MULTIPLIER);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
    if let Some(tail) = bytes.last_chunk::<8>() {
        let (chunks, _) = bytes.as_chunks::<8>();
        for chunk in chunks {
            state = mix(state, u64::from_le_bytes(*chunk));
        }
        state = mix(state, u64::from_le_bytes(*tail));
    } else if let (Some(head), Some(tail)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        state = mix(state, u64::from(head) << 32 | u64::from(tail));
    } else {
        let word = bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        state = mix(state, word);
    }
    (state ^ state >> 32) as u32
}
