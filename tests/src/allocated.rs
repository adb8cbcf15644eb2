//! Counts the memory that a piece of work allocates, for benches.

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a count of bytes. A program makes it its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

fn count(more: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    PEAK.fetch_max(NOW.fetch_add(more, Relaxed) + more, Relaxed);
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    // The kernel may move large blocks without a copy, so growing must stay as fast as without the count. Both blocks
    // count.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Returns the most bytes that are allocated at a time during the work, beyond those allocated before.
pub fn peak<T>(work: impl FnOnce() -> T) -> usize {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    black_box(work());
    PEAK.load(Relaxed) - before
}

/// Returns how often the work asks for memory, or for more memory.
pub fn allocations<T>(work: impl FnOnce() -> T) -> usize {
    let before = ALLOCATIONS.load(Relaxed);
    black_box(work());
    ALLOCATIONS.load(Relaxed) - before
}
