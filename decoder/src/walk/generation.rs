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
            match LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1)) {
                Ok(last) => Self(NonZeroU64::new(last as u64 + 1)),
                Err(_) => Self::NONE,
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
