//! Threads for conversion and verification: the caller's threads, or threads of the standard library.
//!
//! - [`Pool`] is the trait that a caller implements for its own threads. [`Threads`] and [`Serial`] implement
//!   it.
//! - [`map`] does work in parts on a pool, and returns the results in the order of the parts.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// A piece of work that a [`Pool`] runs.
pub type Task<'t> = Box<dyn FnOnce() + Send + 't>;

/// Threads that a caller lends. Implement this trait for your own pool, for example rayon's or a jobserver's.
/// Or use [`Threads`] for threads of the standard library, or [`Serial`] for none. Output bytes and reports do
/// not depend on the pool.
///
/// ```
/// use cfipack_format::pool::{Pool, Task};
///
/// /// Two threads at most.
/// struct Pair;
///
/// impl Pool for Pair {
///     fn threads(&self) -> usize {
///         2
///     }
///
///     fn run<'t>(&self, mut tasks: Vec<Task<'t>>) {
///         let others = tasks.split_off(tasks.len() / 2);
///         std::thread::scope(|scope| {
///             scope.spawn(|| others.into_iter().for_each(|task| task()));
///             tasks.into_iter().for_each(|task| task());
///         });
///     }
/// }
/// ```
pub trait Pool: Sync {
    /// Returns about how many tasks run at the same time. The work is divided accordingly. With 1 or 0, the
    /// caller's thread does all the work, and [`run`](Self::run) is not called.
    fn threads(&self) -> usize;

    /// Runs all tasks and returns when all have ended. It may run them in any order and on any threads,
    /// including the caller's. If a task panics, this method must panic.
    fn run<'t>(&self, tasks: Vec<Task<'t>>);
}

impl<P: Pool + ?Sized> Pool for &P {
    fn threads(&self) -> usize {
        (**self).threads()
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        (**self).run(tasks);
    }
}

/// No pool: the caller's thread does everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Serial;

impl Pool for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        tasks.into_iter().for_each(|task| task());
    }
}

/// Does the work of each part, at the same time if the pool can. Returns the results in the order of the parts.
///
/// ```
/// use cfipack_format::pool::{Serial, map};
///
/// assert_eq!(map(&Serial, vec!["a", "bcd"], str::len), [1, 3]);
/// ```
pub fn map<T: Send, R: Send>(pool: &dyn Pool, parts: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if pool.threads() < 2 || parts.len() < 2 {
        return parts.into_iter().map(work).collect();
    }
    let mut slots: Vec<_> = parts.into_iter().map(|part| (Some(part), None)).collect();
    pool.run(slots.iter_mut().map(|slot| task_of(slot, &work)).collect());
    // Do the parts that the pool did not run.
    slots.into_iter().filter_map(|(part, result)| result.or_else(|| part.map(&work))).collect()
}

/// Divides `count` items among a pool's threads. Returns the number of items in a part, at least `least`. There are
/// two parts for each thread, because some threads start late. With more parts of a link, more rows would be encoded
/// several times.
pub fn part_len(pool: &dyn Pool, count: usize, least: usize) -> usize {
    const PARTS_OF_A_THREAD: usize = 2;
    match pool.threads() {
        0 | 1 => count.max(1),
        threads => count.div_ceil(threads.min(256) * PARTS_OF_A_THREAD).max(least),
    }
}

fn task_of<'t, T: Send, R: Send>(
    slot: &'t mut (Option<T>, Option<R>),
    work: &'t (impl Fn(T) -> R + Sync),
) -> Task<'t> {
    Box::new(move || slot.1 = slot.0.take().map(work))
}

/// Threads of the standard library. The number includes the caller's thread. If the system cannot start a
/// thread, the other threads do its work.
#[cfg(feature = "std")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threads(pub usize);

#[cfg(feature = "std")]
impl Pool for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        let others = self.0.min(tasks.len()).saturating_sub(1);
        let tasks = std::sync::Mutex::new(tasks.into_iter());
        // The lock is released before the task runs.
        let next = || tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
        let worker = || {
            while let Some(task) = next() {
                task();
            }
        };
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..others {
                let Ok(thread) = std::thread::Builder::new().spawn_scoped(scope, worker) else { break };
                threads.push(thread);
            }
            worker();
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
    }
}
