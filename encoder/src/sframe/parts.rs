//! Runs work on several parts at the same time, on a pool.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cfipack_format::pool::{Pool, Task};

/// Calls `work` for each part, at the same time if the pool can.
pub(crate) fn for_each<T: Send>(pool: &dyn Pool, parts: Vec<T>, work: impl Fn(T) + Sync) {
    let mut parts: Vec<_> = parts.into_iter().map(Some).collect();
    if pool.threads() > 1 && parts.len() > 1 {
        let work = &work;
        pool.run(parts.iter_mut().map(|part| task_of(part, work)).collect());
    }
    // Do the parts that the pool did not run, or all parts without a pool.
    parts.into_iter().flatten().for_each(work);
}

fn task_of<'t, T: Send>(part: &'t mut Option<T>, work: &'t (impl Fn(T) + Sync)) -> Task<'t> {
    Box::new(move || part.take().into_iter().for_each(work))
}
