//! A hash table that finds the numbers of items.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::widen::{ToU64, ToUsize};

use crate::sframe::table::chunk::{CHUNK, mix, words};

/// Finds the index of an item by the item's hash. Items get indices in the order in which they are added. The
/// table does not contain the items.
#[derive(Clone, Debug)]
pub(crate) struct HashIndex {
    /// The slots; their number is a power of two. The low bits of a hash choose the slot. The slot has the
    /// index in its low bits, and the other bits of the hash above. Slots are small, because few are in a
    /// cache.
    slots: Vec<u32>,
    /// The hash of each index. After you change them, no index is found before [`rebuild`](Self::rebuild).
    pub(crate) hashes: Vec<u32>,
}

/// An empty slot. At most two thirds of the slots are taken, so no index has all bits set. This is not 0,
/// because memory that the kernel has filled with zeros would be faulted in twice: when a slot is first read,
/// and when a slot is first written. The second fault interrupts all other threads.
const NONE: u32 = u32::MAX;

const LEAST_SLOTS: usize = 256;

impl HashIndex {
    pub(crate) fn new() -> Self {
        Self { slots: vec![NONE; LEAST_SLOTS], hashes: Vec::new() }
    }

    /// Makes an index of [slots](Self::find_or_add) for this many indices.
    pub(crate) fn with_room(indices: usize) -> Self {
        let slots = (indices * 3 / 2 + 1).next_power_of_two();
        Self { slots: vec![NONE; slots], hashes: Vec::new() }
    }

    /// Returns the index with this hash that `is_equal` accepts, or makes `next` findable. There must be
    /// [room](Self::with_room). The hash is not remembered.
    #[inline(always)]
    pub(crate) fn find_or_add(
        &mut self,
        hash: u32,
        next: u32,
        mut is_equal: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let mask = self.slots.len() as u32 - 1;
        let mut at = hash;
        loop {
            let slot = &mut self.slots[(at & mask).to_usize()];
            if *slot == NONE {
                *slot = hash & !mask | next;
                return None;
            }
            let known = *slot & mask;
            if (*slot ^ hash) & !mask == 0 && is_equal(known) {
                return Some(known);
            }
            at = at.wrapping_add(1);
        }
    }

    /// Returns the index with this hash that `is_equal` accepts. `is_equal` may also be called for an index
    /// with another hash.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_equal: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() as u32 - 1;
        let mut at = hash;
        loop {
            let slot = self.slots[(at & mask).to_usize()];
            if slot == NONE {
                return None;
            }
            if (slot ^ hash) & !mask == 0 && is_equal(slot & mask) {
                return Some(slot & mask);
            }
            at = at.wrapping_add(1);
        }
    }

    /// Returns the index that [`find`](Self::find) tries first, if it may have this hash.
    #[inline(always)]
    pub(crate) fn first(&self, hash: u32) -> Option<u32> {
        let mask = self.slots.len() as u32 - 1;
        let slot = self.slots[(hash & mask).to_usize()];
        ((slot ^ hash) & !mask == 0 && slot != NONE).then_some(slot & mask)
    }

    /// Takes the hash of each index. No index is found before [`rebuild`](Self::rebuild).
    pub(crate) fn without_slots(hashes: Vec<u32>) -> Self {
        Self { slots: Vec::new(), hashes }
    }

    /// Frees the slots. No index is found before [`rebuild`](Self::rebuild).
    pub(crate) fn end_lookups(&mut self) {
        self.slots = Vec::new();
        self.hashes.shrink_to_fit();
    }

    /// Makes all indices findable.
    pub(crate) fn rebuild(&mut self) {
        self.grow_to((self.hashes.len() * 2).next_power_of_two().max(LEAST_SLOTS));
    }

    /// Makes room for this many indices at once.
    pub(crate) fn reserve(&mut self, indices: usize) {
        self.hashes.reserve(indices);
        let len = ((self.hashes.len() + indices) * 3 / 2).next_power_of_two();
        if len > self.slots.len() {
            self.grow_to(len);
        }
    }

    /// Adds the next index.
    #[inline]
    pub(crate) fn push(&mut self, hash: u32) {
        if self.hashes.len() * 3 >= self.slots.len() * 2 {
            self.grow_to(self.slots.len() * 2);
        }
        place(&mut self.slots, hash, self.hashes.len());
        self.hashes.push(hash);
    }

    #[cold]
    fn grow_to(&mut self, len: usize) {
        self.slots = vec![NONE; len];
        for (index, &hash) in self.hashes.iter().enumerate() {
            place(&mut self.slots, hash, index);
        }
    }
}

fn place(slots: &mut [u32], hash: u32, index: usize) {
    let mask = slots.len() as u32 - 1;
    let mut at = hash;
    while slots[(at & mask).to_usize()] != NONE {
        at = at.wrapping_add(1);
    }
    slots[(at & mask).to_usize()] = hash & !mask | index as u32;
}

/// Hashes the first `len` bytes. [`CHUNK`] more bytes must follow them. Because of `seed`, an attacker cannot
/// prepare input with colliding hashes.
#[inline(always)]
pub(crate) fn hash(seed: u64, mut bytes: &[u8], mut len: usize) -> u32 {
    let mut sum = seed ^ len.to_u64();
    while let Some(chunk) = bytes.first_chunk() {
        sum = mix(sum, &words(chunk, len));
        if len <= CHUNK {
            break;
        }
        (bytes, len) = (&bytes[CHUNK..], len - CHUNK);
    }
    (sum ^ sum >> 32) as u32
}
