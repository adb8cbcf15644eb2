//! Work in parts whose results are merged in the order of the parts, while later ones are made.

use alloc::vec::Vec;

use super::Pool;

/// The state that tasks share. None ever waits for another: what cannot be done yet is done by the task that makes it
/// possible.
struct Shared<'s, S, R> {
    /// None while a task merges.
    state: Option<&'s mut S>,
    /// The parts that were made and are not merged.
    results: Vec<Option<R>>,
    /// Parts that tasks have taken.
    #[cfg(feature = "std")]
    started: usize,
    /// Parts that are merged.
    merged: usize,
}

/// The next step of a task.
#[cfg(feature = "std")]
enum Step<'s, S, R> {
    Merge(&'s mut S, usize, Option<R>),
    Make(usize),
}

#[cfg(feature = "std")]
impl<'s, S, R> Shared<'s, S, R> {
    fn next_step(&mut self) -> Option<Step<'s, S, R>> {
        let part = self.merged;
        if self.state.is_some() && part < self.results.len() {
            let result = self.results[part].take();
            // All before it are merged: it needs no result.
            let is_next = result.is_none() && self.started == part;
            self.started += usize::from(is_next);
            if result.is_some() || is_next {
                return self.state.take().map(|state| Step::Merge(state, part, result));
            }
        }
        let part = self.started;
        (part < self.results.len()).then(|| {
            self.started += 1;
            Step::Make(part)
        })
    }
}

/// Does the work of `parts` on the threads of a pool. `make` makes a part's result by itself, in any order; `merge` adds
/// it to the state, one part after the other. Where a part's turn comes before a thread has begun it, `merge` gets no
/// result, and does the part's work in the state: with one thread all of it, and nothing is made.
///
/// ```
/// use cfipack_format::pool::{Serial, in_order};
///
/// let mut words = Vec::new();
/// let make = |part: usize| format!("part {part}");
/// in_order(&Serial, 3, &mut words, make, |words, part, made| words.push(made.unwrap_or_else(|| make(part))));
/// assert_eq!(words, ["part 0", "part 1", "part 2"]);
/// ```
pub fn in_order<S: Send, R: Send>(
    pool: &dyn Pool,
    parts: usize,
    state: &mut S,
    make: impl Fn(usize) -> R + Sync,
    merge: impl Fn(&mut S, usize, Option<R>) + Sync,
) {
    let results = (0..parts).map(|_| None).collect();
    let mut shared = Shared {
        state: Some(state),
        results,
        #[cfg(feature = "std")]
        started: 0,
        merged: 0,
    };
    if pool.threads() > 1 && parts > 1 {
        shared = run(pool, shared, &make, &merge);
    }
    // What is left: all without a pool, and parts that a pool has not run the tasks for.
    let Shared { state: Some(state), results, merged, .. } = shared else { return };
    for (part, result) in results.into_iter().enumerate().skip(merged) {
        merge(state, part, result);
    }
}

/// Makes and merges at the same time.
#[cfg(feature = "std")]
fn run<'s, S: Send, R: Send>(
    pool: &dyn Pool,
    shared: Shared<'s, S, R>,
    make: &(impl Fn(usize) -> R + Sync),
    merge: &(impl Fn(&mut S, usize, Option<R>) + Sync),
) -> Shared<'s, S, R> {
    use std::sync::{Mutex, PoisonError};

    let tasks = pool.threads().min(shared.results.len());
    let shared = Mutex::new(shared);
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        // The lock is not held while there is work.
        let next_step = || lock().next_step();
        while let Some(step) = next_step() {
            match step {
                Step::Merge(state, part, result) => {
                    merge(state, part, result);
                    let mut shared = lock();
                    shared.merged += 1;
                    shared.state = Some(state);
                }
                Step::Make(part) => {
                    let result = make(part);
                    lock().results[part] = Some(result);
                }
            }
        }
    };
    pool.run((0..tasks).map(|_| -> super::Task<'_> { alloc::boxed::Box::new(work) }).collect());
    shared.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Makes all results. Merging them at the same time needs a lock.
#[cfg(not(feature = "std"))]
fn run<'s, S: Send, R: Send>(
    pool: &dyn Pool,
    mut shared: Shared<'s, S, R>,
    make: &(impl Fn(usize) -> R + Sync),
    _: &(impl Fn(&mut S, usize, Option<R>) + Sync),
) -> Shared<'s, S, R> {
    let tasks = shared.results.iter_mut().enumerate();
    let task = |(part, result): (usize, &'_ mut Option<R>)| *result = Some(make(part));
    let tasks = tasks.map(|it| -> super::Task<'_> { alloc::boxed::Box::new(move || task(it)) });
    pool.run(tasks.collect());
    shared
}
