//! loom's, by the names of `assembler/src/registry/sync.rs`.

pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::RwLock;
pub(super) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::TryLockError;
