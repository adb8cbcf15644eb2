//! The atomics and locks of a registry, in one place. With `--cfg loom` they come from loom.

#[cfg(not(all(test, loom)))]
pub(super) use core::hint::spin_loop;
#[cfg(not(all(test, loom)))]
pub(super) use core::sync::atomic::{AtomicU64, Ordering, fence};
pub(super) use std::sync::TryLockError;
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::{RwLock, RwLockReadGuard};

#[cfg(all(test, loom))]
pub(super) use loom::hint::spin_loop;
#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(all(test, loom))]
pub(super) use loom::sync::{RwLock, RwLockReadGuard};
