//! Runs work in parts, and merges finished parts in order while later parts are made.

use core::ops::Range;

#[cfg(feature = "std")]
use alloc::vec;
use alloc::vec::Vec;

use super::Pool;

/// The state of a part.
#[cfg(feature = "std")]
enum Part<R> {
    NotStarted,
    /// A task works on it.
    Started,
    /// The task of a later part continued from this part's result, so the later result includes it.
    Joined,
    Made(R),
}

/// The state that tasks share. No task waits for another task: work that is not possible yet is done by the
/// task that makes it possible.
#[cfg(feature = "std")]
struct Shared<'s, S, R> {
    /// `None` while a task merges.
    state: Option<&'s mut S>,
    parts: Vec<Part<R>>,
    /// The number of tasks.
    tasks: usize,
    /// The number of merged parts.
    merged: usize,
}

/// The next step of a task.
#[cfg(feature = "std")]
enum Step<'s, S, R> {
    Merge(&'s mut S, Range<usize>, Option<R>),
    /// Makes a part, and continues from the result of the part before it.
    Make(usize, Option<R>),
}

#[cfg(feature = "std")]
impl<'s, S, R> Shared<'s, S, R> {
    /// Returns the next step for a task. `next` is the part after the last part that this task made.
    fn next_step(&mut self, next: Option<usize>) -> Option<Step<'s, S, R>> {
        if let Some((parts, result)) = self.mergeable() {
            return self.state.take().map(|state| Step::Merge(state, parts, result));
        }
        if let Some(next) = next.filter(|&next| matches!(self.parts.get(next), Some(Part::NotStarted)))
            && matches!(self.parts[next - 1], Part::Made(_))
        {
            let before = core::mem::replace(&mut self.parts[next - 1], Part::Joined);
            self.parts[next] = Part::Started;
            return Some(Step::Make(next, before.made()));
        }
        // Another task works on the part before this run, and will continue with the run's first parts. So
        // this task starts further on, but only a little: then few results wait at the same time.
        let left = self.longest_left()?;
        let ahead = left.len().div_ceil(4 * self.tasks).min(left.len() - 1);
        let part = left.start + ahead;
        self.parts[part] = Part::Started;
        Some(Step::Make(part, None))
    }

    /// Returns the parts that can be merged now, if no task is merging.
    fn mergeable(&mut self) -> Option<(Range<usize>, Option<R>)> {
        self.state.as_ref()?;
        let first = self.merged;
        let joined = self.parts[first..].iter().take_while(|part| matches!(part, Part::Joined)).count();
        let last = self.parts.get_mut(first + joined)?;
        let part = core::mem::replace(last, Part::Started);
        match part {
            Part::Made(result) => Some((first..first + joined + 1, Some(result))),
            // All earlier parts are merged, so `merge` can do this part's work directly in the state.
            Part::NotStarted => Some((first..first + 1, None)),
            Part::Started | Part::Joined => None,
        }
    }

    /// Returns the longest run of parts that no task has begun.
    fn longest_left(&self) -> Option<Range<usize>> {
        let (mut longest, mut first) = (0..0, 0);
        for row in self
            .parts
            .chunk_by(|first, second| matches!((first, second), (Part::NotStarted, Part::NotStarted)))
        {
            if matches!(row[0], Part::NotStarted) && row.len() > longest.len() {
                longest = first..first + row.len();
            }
            first += row.len();
        }
        (!longest.is_empty()).then_some(longest)
    }
}

#[cfg(feature = "std")]
impl<R> Part<R> {
    fn made(self) -> Option<R> {
        match self {
            Self::Made(result) => Some(result),
            Self::NotStarted | Self::Started | Self::Joined => None,
        }
    }
}

/// Does the work of `parts` on the threads of a pool.
///
/// `make` makes the result of a part. It may start without a result, for parts in any order, or continue from
/// the result of the part before. `merge` adds a result to the state, in the order of the parts. A result
/// covers a single part or several parts in a row. If the turn of a part comes before a thread has begun it,
/// `merge` gets no result and does the work of the part directly in the state. With a single thread, this is so
/// for all parts, and `make` is not called.
///
/// A thread without a part begins inside the longest run of parts that no thread has begun, and continues
/// from there. When all parts before its next part are merged, a thread does this part directly in the state.
/// So there are few results, and most of the work is done in the state.
///
/// ```
/// use cfipack_format::pool::{Serial, in_order};
///
/// let mut words = Vec::new();
/// let make = |part: usize, before: Option<Vec<String>>| {
///     let mut words = before.unwrap_or_default();
///     words.push(format!("part {part}"));
///     words
/// };
/// in_order(&Serial, 3, &mut words, make, |words, parts, made| {
///     words.extend(made.unwrap_or_else(|| parts.flat_map(|part| make(part, None)).collect()));
/// });
/// assert_eq!(words, ["part 0", "part 1", "part 2"]);
/// ```
pub fn in_order<S: Send, R: Send>(
    pool: &dyn Pool,
    parts: usize,
    state: &mut S,
    make: impl Fn(usize, Option<R>) -> R + Sync,
    merge: impl Fn(&mut S, Range<usize>, Option<R>) + Sync,
) {
    let mut merged = 0;
    if pool.threads() > 1 && parts > 1 {
        merged = run(pool, parts, state, &make, &merge);
    }
    // Without a pool, all parts remain. A pool that did not run all tasks may also leave some.
    for part in merged..parts {
        merge(state, part..part + 1, None);
    }
}

/// Makes and merges at the same time. Returns the number of merged parts.
#[cfg(feature = "std")]
fn run<S: Send, R: Send>(
    pool: &dyn Pool,
    parts: usize,
    state: &mut S,
    make: &(impl Fn(usize, Option<R>) -> R + Sync),
    merge: &(impl Fn(&mut S, Range<usize>, Option<R>) + Sync),
) -> usize {
    use std::sync::{Mutex, PoisonError};

    let tasks = pool.threads().min(parts);
    let mut all = vec![];
    all.resize_with(parts, || Part::NotStarted);
    let shared = Mutex::new(Shared { state: Some(state), parts: all, tasks, merged: 0 });
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let mut next = None;
        // The lock is released before the work starts.
        let next_step = |next| lock().next_step(next);
        while let Some(step) = next_step(next) {
            match step {
                Step::Merge(state, parts, result) => {
                    let end = parts.end;
                    merge(state, parts, result);
                    let mut shared = lock();
                    shared.merged = end;
                    shared.state = Some(state);
                }
                Step::Make(part, before) => {
                    let result = make(part, before);
                    lock().parts[part] = Part::Made(result);
                    next = Some(part + 1);
                }
            }
        }
    };
    pool.run((0..tasks).map(|_| -> super::Task<'_> { alloc::boxed::Box::new(work) }).collect());
    shared.into_inner().unwrap_or_else(PoisonError::into_inner).merged
}

/// Makes all results first, then merges them. Doing both at the same time needs a lock.
#[cfg(not(feature = "std"))]
fn run<S: Send, R: Send>(
    pool: &dyn Pool,
    parts: usize,
    state: &mut S,
    make: &(impl Fn(usize, Option<R>) -> R + Sync),
    merge: &(impl Fn(&mut S, Range<usize>, Option<R>) + Sync),
) -> usize {
    let mut results = Vec::new();
    results.resize_with(parts, || None);
    let mut tasks: Vec<super::Task<'_>> = Vec::with_capacity(parts);
    for (part, result) in results.iter_mut().enumerate() {
        tasks.push(alloc::boxed::Box::new(move || *result = Some(make(part, None))));
    }
    pool.run(tasks);
    for (part, result) in results.into_iter().enumerate() {
        merge(state, part..part + 1, result);
    }
    parts
}
