//! The identity of an address space at a time.

use core::num::NonZeroU64;
#[cfg(target_has_atomic = "ptr")]
use core::sync::atomic::{AtomicUsize, Ordering};

/// Identifies an [`AddressSpace`](super::AddressSpace) between two changes. A change is, for example, code that
/// is loaded or unloaded, or another table.
///
/// Every call of [`Generation::new`] in a process returns a different generation. A [`Cache`](super::Cache)
/// therefore never returns an entry of another address space, or of the same address space before a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generation(Option<NonZeroU64>);

impl Generation {
    /// The generation of an address space that is not cached: a cache finds nothing for it and stores nothing.
    pub const NONE: Self = Self(None);

    /// Creates a generation that is different from all others in this process. You can call this function in a
    /// signal handler. It waits only for other threads that create a generation at the same time.
    ///
    /// On a machine without atomic operations, and after as many calls as a pointer has values, it returns
    /// [`Generation::NONE`].
    pub fn new() -> Self {
        #[cfg(target_has_atomic = "ptr")]
        {
            static LAST: AtomicUsize = AtomicUsize::new(0);
            let mut last = LAST.load(Ordering::Relaxed);
            loop {
                let Some(next) = last.checked_add(1) else { return Self::NONE };
                match LAST.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Self(NonZeroU64::new(next as u64)),
                    Err(other) => last = other,
                }
            }
        }
        #[cfg(not(target_has_atomic = "ptr"))]
        Self::NONE
    }

    /// Returns the number, which is 0 for [`Generation::NONE`].
    #[inline(always)]
    pub(super) fn number(self) -> u64 {
        self.0.map_or(0, NonZeroU64::get)
    }
}

impl Default for Generation {
    /// Same as [`Generation::new`].
    fn default() -> Self {
        Self::new()
    }
}
