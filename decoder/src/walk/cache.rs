//! A cache of rows, by PC.

use core::fmt;

use cfipack_format::Address;

use super::Generation;
use super::cached_row::CachedRow;

/// An entry of a [`Cache`], 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct CacheEntry {
    /// 0 if the entry is empty.
    generation: u64,
    address: u64,
    row: CachedRow,
}

impl CacheEntry {
    /// An empty entry.
    pub const EMPTY: Self = Self { generation: 0, address: 0, row: CachedRow::EMPTY };
}

impl Default for CacheEntry {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A cache for [`Walk`](super::Walk). For each PC, it stores how to step from a frame at this PC.
///
/// Each PC has a single place in the cache, and the latest PC that needs the place takes it. A cache of 1024
/// entries (32 kB) is enough for most programs.
///
/// A lookup finds an entry only for the same PC and the same [`Generation`]. So the entry is of the same
/// address space, which has not changed since. You can use one cache for several address spaces, and you need
/// not remove anything when a file is unloaded. A walk borrows the cache mutably. A second thread, or a
/// signal handler that interrupts a walk, needs its own cache or none.
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
    /// Creates a cache in `memory`. It uses the greatest power of two of entries that fits. Entries from an
    /// earlier cache in the same memory stay valid.
    pub fn new(memory: &'m mut [CacheEntry]) -> Self {
        let len = memory.len().checked_ilog2().map_or(0, |bits| 1 << bits);
        Self { places: &mut memory[..len] }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether the cache has no entries, so that it never stores anything.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[inline(always)]
    fn place(&self, address: Address) -> usize {
        // Return addresses are close together and functions are aligned, so the low bits alone would spread
        // entries badly.
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
