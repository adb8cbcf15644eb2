//! The atomics and locks of a registry, in one place. With `--cfg loom` they come from loom.

#[cfg(not(all(test, loom)))]
pub(super) use core::hint::spin_loop;
#[cfg(not(all(test, loom)))]
pub(super) use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::RwLock;
pub(super) use std::sync::TryLockError;

#[cfg(all(test, loom))]
pub(super) use loom::hint::spin_loop;
#[cfg(all(test, loom))]
pub(super) use loom::sync::RwLock;
#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
