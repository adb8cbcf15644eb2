//! Replaces memory while other threads read it.
//!
//! A reader holds the memory by a read lock that it only tries to take. The writer locks only memory that is no
//! longer current. A reader therefore never waits: if it comes too late for old memory, it finds the current
//! memory. A signal handler may interrupt the writer at any instruction and finds current memory without a
//! lock.
//!
//! The writer does not wait either. A reader may never release its memory: its thread may be stopped, or may not
//! exist in a child after `fork`. Such memory stays as long as the reader, but the writer uses it again: it writes
//! into the memory, although the reader holds it. A reader that goes on after all sees that other memory has become
//! current, drops its answer and looks again.
//!
//! Memory has a power of two of words, and there are two places for each size. Only one of them can be current,
//! so a reader that holds memory of each size still leaves a place for every size.

use alloc::boxed::Box;

use super::sync::{AtomicU64, Ordering, RwLock, RwLockReadGuard, TryLockError, fence, spin_loop};

/// Memory that readers hold for no longer than a lookup.
type Words = Box<[AtomicU64]>;

/// The least size of memory in words: 4 KiB. Loom's models need far less.
pub(super) const LEAST: usize = if cfg!(all(test, loom)) { 32 } else { 512 };
/// The number of sizes.
const SIZES: usize = if cfg!(all(test, loom)) { 2 } else { 32 };
const SLOTS: usize = 2 * SIZES;
/// The number of slots that are tried for memory of a size: the slots for this size and for the next three sizes.
const TRIED: usize = 8;
/// The number of the current slot while there is no memory.
const NONE: u64 = SLOTS as u64;
/// The bits of a slot's number.
const SLOT_BITS: u32 = 8;

/// The memories. There is a single writer.
#[derive(Debug)]
pub(super) struct Arenas {
    slots: [RwLock<Words>; SLOTS],
    /// The number of the current slot, and in the upper bits how often it has changed.
    current: AtomicU64,
    /// A bit for each slot that may have memory and is not current. Only the writer uses it.
    older: AtomicU64,
}

impl Arenas {
    /// Creates arenas without memory.
    pub(super) fn new() -> Self {
        Self {
            slots: core::array::from_fn(|_| RwLock::new(Words::default())),
            current: AtomicU64::new(NONE),
            older: AtomicU64::new(0),
        }
    }

    /// Reads the current memory. Neither waits nor allocates. `read` may run several times, while the words
    /// change: only its last result counts.
    #[inline]
    pub(super) fn read<T>(&self, read: impl Fn(&[AtomicU64]) -> T) -> T {
        loop {
            let current = self.current.load(Ordering::Acquire);
            let Some(slot) = self.slots.get(slot_of(current)) else { return read(&[]) };
            // Look again: the memory could have been emptied, or it could be about to become current.
            if let Some(words) = shared(slot)
                && self.current.load(Ordering::Relaxed) == current
            {
                let result = read(&words);
                // If a word was written for later memory, this load sees that other memory is current: the fence
                // belongs to the one in `replace`.
                fence(Ordering::Acquire);
                if self.current.load(Ordering::Relaxed) == current {
                    return result;
                }
            }
            spin_loop();
        }
    }

    /// Gives the writer the current memory, which is empty before the first [`Self::replace`].
    pub(super) fn change<T>(&self, change: impl FnOnce(&[AtomicU64]) -> T) -> T {
        match self.slots.get(slot_of(self.current.load(Ordering::Relaxed))).and_then(shared) {
            Some(words) => change(&words),
            None => change(&[]),
        }
    }

    /// Makes other memory current, of `capacity` words or more. `fill` writes the memory before. Returns the
    /// number of words, or `None` if no place can have as many. Never waits. A place has no words if a reader
    /// came too late and then stopped: then the next larger sizes are tried.
    pub(super) fn replace(&self, capacity: usize, fill: impl FnOnce(&[AtomicU64])) -> Option<usize> {
        let size = capacity.max(LEAST).checked_next_power_of_two()?;
        let least = 2 * (size / LEAST).ilog2() as usize;
        let current = self.current.load(Ordering::Relaxed);
        let places = least..SLOTS.min(least + TRIED);
        for number in places.filter(|&number| number != slot_of(current)) {
            let slot = &self.slots[number];
            // If readers hold the slot, it has its words since they came.
            self.store(number, || (0..LEAST << (number / 2)).map(|_| AtomicU64::new(0)).collect());
            let Some(words) = shared(slot).filter(|words| words.len() >= size) else { continue };
            fence(Ordering::Release);
            fill(&words);
            self.publish(current, number);
            return Some(words.len());
        }
        None
    }

    /// Leaves no current memory, and frees all memory that no reader uses.
    pub(super) fn clear(&self) {
        self.publish(self.current.load(Ordering::Relaxed), SLOTS);
        self.reclaim();
    }

    /// Makes a slot current after the slot that is.
    fn publish(&self, current: u64, number: usize) {
        let changes = (current >> SLOT_BITS) + 1;
        self.current.store(changes << SLOT_BITS | number as u64, Ordering::Release);
        let mut older = self.older.load(Ordering::Relaxed) & !bit(number);
        older |= bit(slot_of(current));
        self.older.store(older, Ordering::Relaxed);
    }

    /// Frees older memories that no reader uses.
    pub(super) fn reclaim(&self) {
        let older = self.older.load(Ordering::Relaxed);
        let mut in_use = older;
        while let Some(number) = in_use.checked_ilog2() {
            in_use &= !bit(number as usize);
            if self.store(number as usize, Words::default) {
                self.older
                    .store(self.older.load(Ordering::Relaxed) & !bit(number as usize), Ordering::Relaxed);
            }
        }
    }

    /// Stores memory in a slot that is not current, unless a reader uses the slot.
    fn store(&self, number: usize, words: impl FnOnce() -> Words) -> bool {
        let mut slot = match self.slots[number].try_write() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let old = core::mem::replace(&mut *slot, words());
        drop(slot);
        // Free the old memory without holding the lock.
        drop(old);
        true
    }
}

/// Readers that never end. Loom has no locks that are never released.
#[cfg(all(test, not(loom)))]
impl Arenas {
    /// Holds the current memory for good.
    pub(super) fn hold(&self) {
        let slot = &self.slots[slot_of(self.current.load(Ordering::Relaxed))];
        core::mem::forget(shared(slot).expect("the writer locks no current memory"));
    }

    /// Holds every slot for good.
    pub(super) fn hold_all(&self) {
        self.slots.iter().for_each(|slot| core::mem::forget(shared(slot)));
    }

    /// Returns the number of words of all memories.
    pub(super) fn len(&self) -> usize {
        self.slots.iter().filter_map(shared).map(|words| words.len()).sum()
    }
}

/// Holds the memory of a slot for reading, unless the writer has locked the slot.
#[inline]
fn shared(slot: &RwLock<Words>) -> Option<RwLockReadGuard<'_, Words>> {
    match slot.try_read() {
        Ok(words) => Some(words),
        Err(TryLockError::Poisoned(words)) => Some(words.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the number of a slot, which is [`SLOTS`] if there is no memory.
#[inline]
fn slot_of(current: u64) -> usize {
    (current & ((1 << SLOT_BITS) - 1)) as usize
}

/// Returns the bit of a slot in [`Arenas::older`]: none if there is no memory.
fn bit(number: usize) -> u64 {
    if number < SLOTS { 1 << number } else { 0 }
}
