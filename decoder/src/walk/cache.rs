//! A cache of rows by PC.

use core::fmt;

use cfipack_format::Address;

use super::Generation;
use super::cached_row::CachedRow;

/// A place of a [`Cache`]: 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct CacheEntry {
    /// 0: the place is empty.
    generation: u64,
    address: u64,
    row: CachedRow,
}

impl CacheEntry {
    /// An empty place.
    pub const EMPTY: Self = Self { generation: 0, address: 0, row: CachedRow::EMPTY };
}

impl Default for CacheEntry {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A cache of what a [`Walk`](super::Walk) does at a PC, in memory of the caller.
///
/// Each PC has one place, which the latest PC to need it takes. A thousand places, 32 kB, suffice for most programs.
///
/// What is found was put there for the same PC by the same [`Generation`]: of the same address space, which has not
/// changed since. One cache may therefore serve several address spaces, and nothing has to be removed when a file is
/// unloaded. It is borrowed for a walk alone, so that a second thread, or a signal handler that interrupts a walk, needs
/// one of its own, or none.
///
/// ```
/// use cfipack_decoder::walk::{Cache, CacheEntry};
///
/// let mut memory = [CacheEntry::EMPTY; 1024];
/// let cache = Cache::new(&mut memory);
/// assert_eq!(cache.len(), 1024);
/// ```
pub struct Cache<'m> {
    places: &'m mut [CacheEntry],
}

impl<'m> Cache<'m> {
    /// A cache in `memory`, of which it uses as many places as the greatest power of two that fits. What an earlier
    /// cache has put there stays valid.
    pub fn new(memory: &'m mut [CacheEntry]) -> Self {
        let len = memory.len().checked_ilog2().map_or(0, |bits| 1 << bits);
        Self { places: &mut memory[..len] }
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether it has no places, and so never keeps anything.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[inline(always)]
    fn place(&self, address: Address) -> usize {
        // Calls are a few bytes apart, functions aligned: the lower bits alone would crowd some places.
        let mixed = (address.0 ^ address.0 >> 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & self.places.len().wrapping_sub(1)
    }

    #[inline(always)]
    pub(super) fn get(&self, address: Address, generation: Generation) -> Option<CachedRow> {
        let entry = self.places.get(self.place(address))?;
        let is_found =
            entry.address == address.0 && entry.generation == generation.number() && entry.generation != 0;
        is_found.then_some(entry.row)
    }

    #[inline(always)]
    pub(super) fn put(&mut self, address: Address, generation: Generation, row: CachedRow) {
        let place = self.place(address);
        if let Some(entry) = self.places.get_mut(place) {
            *entry = CacheEntry { generation: generation.number(), address: address.0, row };
        }
    }
}

impl fmt::Debug for Cache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("len", &self.len()).finish_non_exhaustive()
    }
}
