//! The identity of an address space at one time.

use core::num::NonZeroU64;
#[cfg(target_has_atomic = "ptr")]
use core::sync::atomic::{AtomicUsize, Ordering};

/// The identity of an [`AddressSpace`](super::AddressSpace) between two changes of it: of which code lies where, and of
/// the tables that describe it.
///
/// No two calls of [`Generation::new`] in a process return the same one, whichever spaces they are for, so that what a
/// [`Cache`](super::Cache) has of another space, or of this one before a change, is never found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generation(Option<NonZeroU64>);

impl Generation {
    /// The generation of a space that is not cached: nothing is found by it, and nothing kept.
    pub const NONE: Self = Self(None);

    /// A new generation. Async-signal-safe, and wait-free but for other threads that make one.
    ///
    /// On a machine without atomic operations, and after as many calls as a pointer has values,
    /// it is [`Generation::NONE`].
    pub fn new() -> Self {
        #[cfg(target_has_atomic = "ptr")]
        {
            static LAST: AtomicUsize = AtomicUsize::new(0);
            let next = |last: usize| last.checked_add(1);
            let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            Self(last.ok().and_then(|last| NonZeroU64::new(last as u64 + 1)))
        }
        #[cfg(not(target_has_atomic = "ptr"))]
        Self::NONE
    }

    /// The number; 0 of [`Generation::NONE`].
    #[inline(always)]
    pub(super) fn number(self) -> u64 {
        self.0.map_or(0, NonZeroU64::get)
    }
}

impl Default for Generation {
    /// A new one.
    fn default() -> Self {
        Self::new()
    }
}
