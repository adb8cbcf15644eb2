//! A hash table of indices into something else.

use alloc::vec;
use alloc::vec::Vec;

use super::words::{CHUNK, mix, words};

/// Finds the index of an item by its hash; the items themselves lie elsewhere.
#[derive(Clone, Debug)]
pub(super) struct HashIndex {
    /// Hash and index; the length is a power of two.
    slots: Vec<(u32, u32)>,
    len: usize,
}

/// The index of an empty slot. Not 0: memory that only the kernel has filled with zeros would be faulted in
/// twice, when a slot is read first and when one is written, for which all other threads are interrupted.
const NONE: u32 = u32::MAX;

impl HashIndex {
    pub(super) fn new() -> Self {
        Self { slots: vec![(0, NONE); 256], len: 0 }
    }

    /// The index with this hash that `is_equal` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is_equal: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (slot_hash, index) = self.slots[at & mask];
            if index == NONE {
                return None;
            }
            if slot_hash == hash && is_equal(index) {
                return Some(index);
            }
            at += 1;
        }
    }

    /// The index that [`find`](Self::find) looks at first, if any has this hash.
    #[inline(always)]
    pub(super) fn first(&self, hash: u32) -> Option<u32> {
        let (slot_hash, index) = self.slots[hash as usize & (self.slots.len() - 1)];
        (slot_hash == hash && index != NONE).then_some(index)
    }

    /// The hash of each index.
    pub(super) fn hashes(&self) -> Vec<u32> {
        let mut hashes = vec![0; self.len];
        for &(hash, index) in self.slots.iter().filter(|(_, index)| *index != NONE) {
            hashes[index as usize] = hash;
        }
        hashes
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
        place(&mut self.slots, (hash, index));
    }

    #[cold]
    fn grow_to(&mut self, len: usize) {
        let mut slots = vec![(0, NONE); len];
        self.slots.iter().filter(|(_, index)| *index != NONE).for_each(|&slot| place(&mut slots, slot));
        self.slots = slots;
    }
}

fn place(slots: &mut [(u32, u32)], slot: (u32, u32)) {
    let mask = slots.len() - 1;
    let mut at = slot.0 as usize & mask;
    while slots[at].1 != NONE {
        at = (at + 1) & mask;
    }
    slots[at] = slot;
}

/// Hashes the first `len` of bytes, behind which [`CHUNK`] more can be read; `seed` keeps anybody from
/// preparing bytes whose hashes collide.
#[inline(always)]
pub(super) fn hash(seed: u64, mut bytes: &[u8], mut len: usize) -> u32 {
    let mut sum = seed ^ len as u64;
    while let Some(chunk) = bytes.first_chunk() {
        sum = mix(sum, &words(chunk, len));
        if len <= CHUNK {
            break;
        }
        (bytes, len) = (&bytes[CHUNK..], len - CHUNK);
    }
    (sum ^ sum >> 32) as u32
}
