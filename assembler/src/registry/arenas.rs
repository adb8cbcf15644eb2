//! Replaces memory while other threads read it.
//!
//! A reader holds the memory by a read lock that it only tries to take. The writer locks only memory that is no
//! longer current. A reader therefore never waits: if it comes too late for old memory, it finds the current
//! memory. A signal handler may interrupt the writer at any instruction and finds current memory without a
//! lock.

use alloc::boxed::Box;
use core::mem::take;

use super::sync::{AtomicU64, AtomicUsize, Ordering, RwLock, TryLockError, spin_loop};

/// Memory that readers hold for no longer than a lookup.
pub(super) type Words = Box<[AtomicU64]>;

/// The number of memories: the current memory, and older memories that readers may still use.
const SLOTS: usize = 3;

/// The memories, and the number of the current memory. There is a single writer.
#[derive(Debug)]
pub(super) struct Arenas {
    slots: [RwLock<Words>; SLOTS],
    current: AtomicUsize,
}

impl Arenas {
    pub(super) fn new(words: Words) -> Self {
        let slots = [words, Words::default(), Words::default()].map(RwLock::new);
        Self { slots, current: AtomicUsize::new(0) }
    }

    /// Reads the current memory. Neither waits nor allocates.
    #[inline]
    pub(super) fn read<T>(&self, read: impl FnOnce(&[AtomicU64]) -> T) -> T {
        loop {
            let current = self.current.load(Ordering::Acquire);
            let words = match self.slots[current].try_read() {
                Ok(words) => Some(words),
                Err(TryLockError::Poisoned(words)) => Some(words.into_inner()),
                // The writer has replaced this memory in the meantime.
                Err(TryLockError::WouldBlock) => None,
            };
            // Look again: the memory could have been emptied, or it could be about to become current.
            if let Some(words) = words
                && self.current.load(Ordering::Relaxed) == current
            {
                return read(&words);
            }
            spin_loop();
        }
    }

    /// Makes other memory current. This function waits only if readers still use every older memory.
    pub(super) fn replace(&self, words: Words) {
        let current = self.current.load(Ordering::Relaxed);
        let mut words = Some(words);
        loop {
            for number in (0..SLOTS).filter(|&number| number != current) {
                if self.store(number, &mut words).is_some() {
                    self.current.store(number, Ordering::Release);
                    return;
                }
            }
            spin_loop();
        }
    }

    /// Frees older memories that no reader uses. Returns whether all older memories are free.
    pub(super) fn reclaim(&self) -> bool {
        let current = self.current.load(Ordering::Relaxed);
        let older = (0..SLOTS).filter(|&number| number != current);
        let in_use = older.filter(|&number| self.store(number, &mut Some(Words::default())).is_none());
        in_use.count() == 0
    }

    /// Stores memory in a slot that is not current, unless a reader uses the slot.
    fn store(&self, number: usize, words: &mut Option<Words>) -> Option<()> {
        let mut slot = match self.slots[number].try_write() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let old = core::mem::replace(&mut *slot, take(words)?);
        drop(slot);
        // Free the old memory without holding the lock.
        drop(old);
        Some(())
    }
}
