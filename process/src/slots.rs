//! Replaces a value while other threads and signal handlers use it.
//!
//! A reader counts itself in the slot that is current, and then looks whether the slot still is current. The writer
//! empties or fills a slot only if the slot is not current and counts no reader. So neither waits for the other: a
//! reader looks again only if the writer has made another slot current, and the writer takes a new slot if readers are in
//! all others.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::Arc;

/// A place for a value, and the number of its readers.
struct Slot<T> {
    readers: AtomicUsize,
    value: UnsafeCell<Option<T>>,
}

/// The value that is current, as readers see it.
pub(crate) struct Current<T>(AtomicPtr<Slot<T>>);

/// All slots. There is one writer.
pub(crate) struct Slots<T>(Vec<Arc<Slot<T>>>);

/// A reader of a value. The value stays as it is until the reader is dropped.
pub(crate) struct Reader<'c, T>(&'c Slot<T>);

// SAFETY: readers share the value, and the writer drops it.
unsafe impl<T: Send + Sync> Send for Slot<T> {}
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slots<T> {
    /// Creates slots with a value.
    pub(crate) fn new(value: T) -> (Current<T>, Self) {
        let slot = Arc::new(Slot { readers: AtomicUsize::new(0), value: UnsafeCell::new(Some(value)) });
        (Current(AtomicPtr::new(Arc::as_ptr(&slot).cast_mut())), Self(vec![slot]))
    }

    /// Makes another value current, and drops the older values that have no readers.
    pub(crate) fn replace(&mut self, current: &Current<T>, value: T) {
        let now = current.0.load(Ordering::Relaxed).cast_const();
        let free = |slot: &&Arc<Slot<T>>| Arc::as_ptr(slot) != now && slot.readers.load(Ordering::SeqCst) == 0;
        let slot = match self.0.iter().find(free) {
            Some(slot) => slot,
            None => {
                self.0.push(Arc::new(Slot { readers: AtomicUsize::new(0), value: UnsafeCell::new(None) }));
                &self.0[self.0.len() - 1]
            }
        };
        // SAFETY: the slot is not current. A reader that counts itself from now on does not use the value before it sees
        // that the slot has become current.
        unsafe { *slot.value.get() = Some(value) };
        current.0.store(Arc::as_ptr(slot).cast_mut(), Ordering::SeqCst);
        self.drop_unread(current);
    }

    /// Drops the values that are not current and have no readers.
    pub(crate) fn drop_unread(&mut self, current: &Current<T>) {
        let now = current.0.load(Ordering::Relaxed).cast_const();
        for slot in &self.0 {
            if Arc::as_ptr(slot) != now && slot.readers.load(Ordering::SeqCst) == 0 {
                // SAFETY: the same as in `replace`.
                drop(unsafe { (*slot.value.get()).take() });
            }
        }
    }
}

impl<T> Current<T> {
    /// Starts to read the current value. Never waits: it tries again only if another value became current meanwhile.
    /// Async-signal-safe.
    ///
    /// # Safety
    /// The slots live as long as the reader.
    pub(crate) unsafe fn read(&self) -> Reader<'_, T> {
        loop {
            let current = self.0.load(Ordering::SeqCst);
            // SAFETY: a slot lives as long as all slots.
            let slot = unsafe { &*current };
            slot.readers.fetch_add(1, Ordering::SeqCst);
            let reader = Reader(slot);
            // All of these operations are in one order. If the writer has not counted this reader, the reader sees
            // here that the writer has made another slot current.
            if self.0.load(Ordering::SeqCst) == current {
                return reader;
            }
        }
    }
}

impl<T> Deref for Reader<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `read` has found the slot current while the reader was counted. From then on the writer leaves the
        // value alone, and a current slot has a value.
        unsafe { (*self.0.value.get()).as_ref().unwrap_unchecked() }
    }
}

impl<T> Drop for Reader<'_, T> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::SeqCst);
    }
}
