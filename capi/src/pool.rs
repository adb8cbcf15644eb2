//! The threads of a call: the library's own threads, or the caller's pool.

use core::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use cfipack_format::pool::{Pool, Task, Threads};

use crate::handle::Failure;
use crate::sized_options::{SizedOptions, options};

/// A task for a pool: call it as `task(work, index)`.
pub type cfipack_task = Option<unsafe extern "C" fn(work: *mut c_void, index: usize)>;

/// The threads that a call may use. The output never depends on them. Null, or zero in all fields except `size`,
/// means only the calling thread.
///
/// Without `run` the library starts threads and ends them before it returns. With `run` your own threads do the work.
/// The library calls `run(pool, task, work, count)`. Then `run` must call `task(work, index)` once for each index
/// below `count`, in any order and on any threads. It must return when all these calls have ended. If `run` omits an
/// index, the library runs it afterwards on the calling thread. A second call with the same index does
/// nothing. `run` is called on the calling thread, never inside a task, possibly several times. It must not throw or
/// jump out, and `task` does neither.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_pool {
    /// `sizeof(cfipack_pool)`
    pub size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// About how many threads there are. This decides how finely work is divided. With 0 or 1 the calling thread does
    /// all of the work; numbers above 256 are treated as 256.
    pub threads: usize,
    /// The function that runs tasks, or null to let the library start `threads` threads.
    pub run:
        Option<unsafe extern "C" fn(pool: *mut c_void, task: cfipack_task, work: *mut c_void, count: usize)>,
    /// The first argument of `run`. The library does not use it.
    pub pool: *mut c_void,
}

// SAFETY: integers and pointers without padding.
unsafe impl SizedOptions for cfipack_pool {
    const DEFAULT: Self = Self { size: 0, reserved: 0, threads: 0, run: None, pool: core::ptr::null_mut() };
}

/// The threads of a call.
pub(crate) struct Workers(cfipack_pool);

impl Workers {
    /// # Safety
    /// `pool` is null or points to a pool, and its function behaves as described there.
    pub(crate) unsafe fn get(pool: *const cfipack_pool) -> Result<Self, Failure> {
        // SAFETY: promised by the caller.
        let pool = unsafe { options(pool) }?;
        if pool.reserved != 0 {
            return Err(Failure::argument(&"a reserved field of a pool is not 0"));
        }
        Ok(Self(cfipack_pool { threads: pool.threads.clamp(1, 256), ..pool }))
    }
}

/// The tasks of a call of `run`.
struct Work<'t> {
    tasks: Vec<Mutex<Option<Task<'t>>>>,
    has_panicked: AtomicBool,
}

impl Work<'_> {
    /// Runs a task unless it has run already.
    fn run(&self, index: usize) {
        let Some(task) = self.tasks.get(index) else { return };
        let task = task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if task.is_some_and(|task| catch_unwind(AssertUnwindSafe(task)).is_err()) {
            self.has_panicked.store(true, Relaxed);
        }
    }
}

/// # Safety
/// `work` is the pointer that the pool was given, and that call of the pool has not returned.
unsafe extern "C" fn run_task(work: *mut c_void, index: usize) {
    // SAFETY: promised by the caller.
    if let Some(work) = unsafe { work.cast::<Work<'_>>().as_ref() } {
        work.run(index);
    }
}

// SAFETY: the pointer is only given to the caller's function, on the thread of the call.
unsafe impl Sync for Workers {}

impl Pool for Workers {
    fn threads(&self) -> usize {
        self.0.threads
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        let Some(run) = self.0.run else { return Threads(self.0.threads).run(tasks) };
        let work = Work {
            tasks: tasks.into_iter().map(|task| Mutex::new(Some(task))).collect(),
            has_panicked: AtomicBool::new(false),
        };
        // SAFETY: the caller promised that `run` behaves as described, and returns when all calls of the task have
        // ended.
        unsafe { run(self.0.pool, Some(run_task), (&raw const work).cast_mut().cast(), work.tasks.len()) };
        // Tasks that the pool did not run.
        (0..work.tasks.len()).for_each(|index| work.run(index));
        assert!(!work.has_panicked.into_inner(), "a task has panicked");
    }
}
