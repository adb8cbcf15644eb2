//! Work in parts whose results are merged in the order of the parts, while later ones are made.

use core::ops::Range;

#[cfg(feature = "std")]
use alloc::vec;
use alloc::vec::Vec;

use super::Pool;

/// What has become of a part.
#[cfg(feature = "std")]
enum Part<R> {
    Left,
    /// A task works on it.
    Started,
    /// Its result is that of a later part, whose task went on with it.
    Joined,
    Made(R),
}

/// The state that tasks share. None ever waits for another: what cannot be done yet is done by the task that makes it
/// possible.
#[cfg(feature = "std")]
struct Shared<'s, S, R> {
    /// None while a task merges.
    state: Option<&'s mut S>,
    parts: Vec<Part<R>>,
    /// The number of tasks.
    tasks: usize,
    /// The number of parts that are merged.
    merged: usize,
}

/// The next step of a task.
#[cfg(feature = "std")]
enum Step<'s, S, R> {
    Merge(&'s mut S, Range<usize>, Option<R>),
    /// Makes a part, going on with the result of the one before.
    Make(usize, Option<R>),
}

#[cfg(feature = "std")]
impl<'s, S, R> Shared<'s, S, R> {
    /// A step for a task that made the part before `next` last.
    fn next_step(&mut self, next: Option<usize>) -> Option<Step<'s, S, R>> {
        if let Some((parts, result)) = self.mergeable() {
            return self.state.take().map(|state| Step::Merge(state, parts, result));
        }
        if let Some(next) = next.filter(|&next| matches!(self.parts.get(next), Some(Part::Left)))
            && matches!(self.parts[next - 1], Part::Made(_))
        {
            let before = core::mem::replace(&mut self.parts[next - 1], Part::Joined);
            self.parts[next] = Part::Started;
            return Some(Step::Make(next, before.made()));
        }
        // Who works before the parts that are left goes on with the first ones. Not far behind these, so that few
        // results wait at the same time.
        let left = self.longest_left()?;
        let ahead = left.len().div_ceil(4 * self.tasks).min(left.len() - 1);
        let part = left.start + ahead;
        self.parts[part] = Part::Started;
        Some(Step::Make(part, None))
    }

    /// The parts that can be merged now, if the state is free.
    fn mergeable(&mut self) -> Option<(Range<usize>, Option<R>)> {
        self.state.as_ref()?;
        let first = self.merged;
        let joined = self.parts[first..].iter().take_while(|part| matches!(part, Part::Joined)).count();
        let last = self.parts.get_mut(first + joined)?;
        let part = core::mem::replace(last, Part::Started);
        match part {
            Part::Made(result) => Some((first..first + joined + 1, Some(result))),
            // All before it are merged: it needs no result.
            Part::Left => Some((first..first + 1, None)),
            Part::Started | Part::Joined => None,
        }
    }

    /// The longest row of parts that no task has begun.
    fn longest_left(&self) -> Option<Range<usize>> {
        let (mut longest, mut first) = (0..0, 0);
        for row in self.parts.chunk_by(|one, two| matches!((one, two), (Part::Left, Part::Left))) {
            if matches!(row[0], Part::Left) && row.len() > longest.len() {
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
            Self::Left | Self::Started | Self::Joined => None,
        }
    }
}

/// Does the work of `parts` on the threads of a pool. `make` makes a part's result by itself, in any order, or goes on
/// with the result of the part before; `merge` adds a result, of one part or of several in a row, to the state, in the
/// order of the parts. Where a part's turn comes before a thread has begun it, `merge` gets no result, and does the
/// part's work in the state: with one thread all of it, and nothing is made.
///
/// A thread that makes results begins some way behind the state's place, and goes on from there; when the state comes
/// there, it goes on in the state. So results are few, and much of the work is done in the state.
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
    // What is left: all without a pool, and parts that a pool has not run the tasks for.
    for part in merged..parts {
        merge(state, part..part + 1, None);
    }
}

/// Makes and merges at the same time. Returns how many parts are merged.
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
    all.resize_with(parts, || Part::Left);
    let shared = Mutex::new(Shared { state: Some(state), parts: all, tasks, merged: 0 });
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let mut next = None;
        // The lock is not held while there is work.
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

/// Makes all results. Merging them at the same time needs a lock.
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
    let task = |(part, result): (usize, &'_ mut Option<R>)| *result = Some(make(part, None));
    let tasks = results
        .iter_mut()
        .enumerate()
        .map(|it| -> super::Task<'_> { alloc::boxed::Box::new(move || task(it)) });
    pool.run(tasks.collect());
    for (part, result) in results.into_iter().enumerate() {
        merge(state, part..part + 1, result);
    }
    parts
}
