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
        let free =
            |slot: &&Arc<Slot<T>>| Arc::as_ptr(slot) != now && slot.readers.load(Ordering::SeqCst) == 0;
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
            let seen = self.0.load(Ordering::SeqCst);
            // SAFETY: the slot is one of all slots.
            if let Some(reader) = unsafe { self.read_slot(seen) } {
                return reader;
            }
        }
    }

    /// Starts to read a slot that was current a moment ago. Returns `None` if it is not current any more.
    ///
    /// # Safety
    /// The slots live as long as the reader, and this is one of them.
    unsafe fn read_slot(&self, seen: *const Slot<T>) -> Option<Reader<'_, T>> {
        // SAFETY: promised by the caller.
        let slot = unsafe { &*seen };
        slot.readers.fetch_add(1, Ordering::SeqCst);
        let reader = Reader(slot);
        // All of these operations are in one order. If the writer has not counted this reader, the reader sees here that
        // the writer has made another slot current.
        core::ptr::eq(self.0.load(Ordering::SeqCst), seen).then_some(reader)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    use std::thread;

    use super::Slots;

    /// A value that knows whether it was dropped.
    struct Value {
        number: u64,
        is_dropped: AtomicBool,
        alive: Arc<AtomicUsize>,
    }

    impl Value {
        fn new(number: u64, alive: &Arc<AtomicUsize>) -> Self {
            alive.fetch_add(1, Ordering::SeqCst);
            Self { number, is_dropped: AtomicBool::new(false), alive: Arc::clone(alive) }
        }
    }

    impl Drop for Value {
        fn drop(&mut self) {
            assert!(!self.is_dropped.swap(true, Ordering::SeqCst), "dropped twice");
            self.alive.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn readers_see_whole_values_in_order() {
        const LAST: u64 = 300_000;
        let alive = Arc::new(AtomicUsize::new(0));
        let (current, mut slots) = Slots::new(Value::new(0, &alive));
        let written = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < LAST {
                        let known = written.load(Ordering::SeqCst);
                        // SAFETY: the slots outlive the scope.
                        let value = unsafe { current.read() };
                        assert!(value.number >= known.max(last), "an older value");
                        last = value.number;
                        assert!(!value.is_dropped.load(Ordering::SeqCst) && value.number == last);
                    }
                });
            }
            for number in 1..=LAST {
                slots.replace(&current, Value::new(number, &alive));
                written.store(number, Ordering::SeqCst);
            }
        });
        slots.drop_unread(&current);
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        // Each reader holds one slot, and another slot while it looks for the current one.
        assert!(slots.0.len() <= 2 + 2 * 3, "{} slots", slots.0.len());
    }

    /// A reader that never ends keeps its own value, and no other.
    #[test]
    fn a_reader_keeps_one_value() {
        let alive = Arc::new(AtomicUsize::new(0));
        let (current, mut slots) = Slots::new(Value::new(0, &alive));
        // SAFETY: the slots live longer.
        let (first, mut held) = (unsafe { current.read() }, Vec::new());
        for number in 1..100 {
            slots.replace(&current, Value::new(number, &alive));
            if number == 50 {
                // SAFETY: the slots live longer.
                held.push(unsafe { current.read() });
            }
        }
        assert_eq!((first.number, held[0].number, alive.load(Ordering::SeqCst)), (0, 50, 3));
        drop((first, held));
        slots.drop_unread(&current);
        assert_eq!(alive.load(Ordering::SeqCst), 1);
    }

    /// Between a look at the current slot and its count, a reader may be stopped for as long as you like.
    #[test]
    fn a_reader_that_comes_too_late_looks_again() {
        let alive = Arc::new(AtomicUsize::new(0));
        let (current, mut slots) = Slots::new(Value::new(0, &alive));
        let seen = current.0.load(Ordering::SeqCst);
        slots.replace(&current, Value::new(1, &alive));
        // SAFETY: the slots live longer.
        assert!(unsafe { current.read_slot(seen) }.is_none());
        slots.replace(&current, Value::new(2, &alive));
        // The slot has become current again, with another value.
        // SAFETY: as above.
        let number = unsafe { current.read_slot(seen) }.map(|value| value.number);
        assert_eq!((number, alive.load(Ordering::SeqCst), slots.0.len()), (Some(2), 1, 2));
    }
}
