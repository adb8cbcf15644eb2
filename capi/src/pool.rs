//! Threads that a call runs on: the library's own, or those of the caller's pool.

use core::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use cfipack_format::pool::{Pool, Task, Threads};

use crate::handle::Failure;
use crate::sized_options::{SizedOptions, options};

/// A piece of work that a pool runs: `task(work, index)`.
pub type cfipack_task = Option<unsafe extern "C" fn(work: *mut c_void, index: usize)>;

/// Threads that a call runs on. What is written never depends on them. Null, or all zero but for the size, is the thread of the
/// call alone.
///
/// Without `run` the library starts threads, and ends them before it returns. With it the caller's own threads work:
/// `run(pool, task, work, count)` calls `task(work, index)` for each index below `count`, once each, in any order and on any
/// threads, its own among them, and returns when all these calls have ended. What it does not call is done after it, on the
/// thread of the call; a call with an index that was called before does nothing. It is called on the thread of the call, never
/// within a task, and may be called several times. It must not throw, and must not jump out; `task` does neither.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_pool {
    /// `sizeof(cfipack_pool)`
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// About how many threads there are, which is how finely work is divided. With 0 and 1 the thread of the call does all
    /// of it; 256 stands for all greater numbers.
    pub threads: usize,
    /// Runs tasks, or null: the library starts `threads` threads.
    pub run:
        Option<unsafe extern "C" fn(pool: *mut c_void, task: cfipack_task, work: *mut c_void, count: usize)>,
    /// The value that `run` gets first. The library does not look at it.
    pub pool: *mut c_void,
}

// SAFETY: integers and pointers without padding.
unsafe impl SizedOptions for cfipack_pool {
    const DEFAULT: Self = Self { size: 0, reserved: 0, threads: 0, run: None, pool: core::ptr::null_mut() };
}

/// The workers that run the tasks of a call.
pub(crate) struct Workers(cfipack_pool);

impl Workers {
    /// # Safety
    /// `pool` is null or leads to a pool, whose function does what is described there.
    pub(crate) unsafe fn get(pool: *const cfipack_pool) -> Result<Self, Failure> {
        // SAFETY: promised by the caller.
        let pool = unsafe { options(pool) }?;
        if pool.reserved != 0 {
            return Err(Failure::argument(&"a reserved field of a pool is not 0"));
        }
        Ok(Self(cfipack_pool { threads: pool.threads.clamp(1, 256), ..pool }))
    }
}

/// The tasks of one call of a pool.
struct Work<'t> {
    tasks: Vec<Mutex<Option<Task<'t>>>>,
    has_panicked: AtomicBool,
}

impl Work<'_> {
    /// Runs a task, unless it has been run.
    fn run(&self, index: usize) {
        let Some(task) = self.tasks.get(index) else { return };
        let task = task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if task.is_some_and(|task| catch_unwind(AssertUnwindSafe(task)).is_err()) {
            self.has_panicked.store(true, Relaxed);
        }
    }
}

/// # Safety
/// `work` is what the pool was given, and the call of the pool has not returned.
unsafe extern "C" fn run_one(work: *mut c_void, index: usize) {
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
        // SAFETY: `run` is what the caller promised, and returns when all calls of the task have ended.
        unsafe { run(self.0.pool, Some(run_one), (&raw const work).cast_mut().cast(), work.tasks.len()) };
        // What the pool did not run.
        (0..work.tasks.len()).for_each(|index| work.run(index));
        assert!(!work.has_panicked.into_inner(), "a task has panicked");
    }
}
