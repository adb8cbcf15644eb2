//! The atomics and locks of a registry, in one place: `tests/loom` has others by the same names.

pub(super) use core::hint::spin_loop;
pub(super) use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{RwLock, TryLockError};
