//! Caches of rows, in memory of the caller.

use core::mem::{align_of, size_of};
use core::sync::atomic::{AtomicU32, Ordering};

use cfipack_decoder::walk::{Cache, CacheEntry};

use crate::arguments::array_mut;
use crate::cfipack_status;
use crate::in_place::{Memory, clear, put};
use crate::status::call;

/// A cache of rows by PC, in memory of the caller. Only one walk at a time uses it. Other walks, in any thread or
/// signal handler, see that it is in use and do without it.
#[repr(C)]
#[derive(Debug)]
pub struct cfipack_cache {
    /// Memory that only the library reads and writes.
    pub opaque: [u64; 8],
}

/// The value of [`cfipack_cache`].
pub(crate) struct CacheMemory {
    is_used: AtomicU32,
    start: *mut CacheEntry,
    len: usize,
}

impl Memory for cfipack_cache {
    const TAG: u64 = u64::from_le_bytes(*b"cfiCACHE");
    type Value = CacheMemory;
}

/// Creates an empty cache in `size` bytes of `memory`. The memory must stay where it is as long as the cache is used.
/// Each PC needs 32 bytes, and 32 kB suffice for most programs. Async-signal-safe.
///
/// # Safety
/// `memory` is writable for `size` bytes and belongs to the cache alone, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_cache_init(
    out: *mut cfipack_cache,
    memory: *mut u8,
    size: usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe { clear(out) }?;
        let before = memory.align_offset(align_of::<CacheEntry>());
        let len = size.saturating_sub(before) / size_of::<CacheEntry>();
        // SAFETY: promised by the caller.
        unsafe { array_mut(memory, size) }?;
        let start = memory.wrapping_add(if len == 0 { 0 } else { before }).cast::<CacheEntry>();
        for at in 0..len {
            // SAFETY: aligned, and within the memory.
            unsafe { start.wrapping_add(at).write(CacheEntry::EMPTY) };
        }
        // SAFETY: promised by the caller.
        unsafe { put(out, CacheMemory { is_used: AtomicU32::new(0), start, len }) }
    })
}

/// The right to use a cache. It is returned at the end of a walk.
pub(crate) struct CacheGuard<'c>(&'c CacheMemory);

impl<'c> CacheGuard<'c> {
    pub(crate) fn take(places: &'c CacheMemory) -> Option<Self> {
        let free = places.is_used.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then_some(Self(places))
    }

    pub(crate) fn cache(&mut self) -> Cache<'_> {
        let CacheMemory { start, len, .. } = *self.0;
        // SAFETY: written by `cfipack_cache_init`, and only this walk uses it now.
        Cache::new(match len {
            0 => &mut [],
            len => unsafe { core::slice::from_raw_parts_mut(start, len) },
        })
    }
}

impl Drop for CacheGuard<'_> {
    fn drop(&mut self) {
        self.0.is_used.store(0, Ordering::Release);
    }
}
