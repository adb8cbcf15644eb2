//! Work that several threads share.

use alloc::vec::Vec;

/// Does what is to be done for each part, on up to as many threads, if the system has so many to give.
#[cfg(feature = "std")]
pub(super) fn run<T: Send>(threads: usize, parts: Vec<T>, work: impl Fn(T) + Sync) {
    let others = threads.min(parts.len()).saturating_sub(1);
    let parts = std::sync::Mutex::new(parts.into_iter());
    let next = || parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let worker = || {
        while let Some(part) = next() {
            work(part);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..others {
            drop(std::thread::Builder::new().spawn_scoped(scope, worker));
        }
        worker();
    });
}

#[cfg(not(feature = "std"))]
pub(super) fn run<T>(_: usize, parts: Vec<T>, work: impl Fn(T)) {
    parts.into_iter().for_each(work);
}
