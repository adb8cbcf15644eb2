//! The functions of a file, judged in parts by the threads of a pool.

use std::sync::{Mutex, PoisonError};

use super::found::Found;
use super::input::Input;
use super::part::Part;
use cfipack_format::pool::{Pool, Task};
use cfipack_format::widen::ToU64;

/// The number of parts for each thread. It is greater than 1 because some parts take longer than others.
const PARTS: usize = 8;
/// The least number of functions in a part.
const FEW: usize = 128;

/// Judges all functions. Returns the findings of the parts, in order of address.
pub(super) fn judge(input: &Input<'_, '_>, pool: &dyn Pool) -> Vec<Found> {
    let count = input.functions.as_slice().len();
    let threads = pool.threads().min(count / FEW);
    if threads <= 1 {
        return vec![Part::judge(input, &mut input.tools(), 0..count)];
    }
    let size = count.div_ceil(threads * PARTS).max(FEW);
    let parts = (0..count).step_by(size).map(|first| first..count.min(first + size));
    let (parts, found) = (Mutex::new(parts.enumerate()), Mutex::new(Vec::new()));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut tools = None;
        while let Some((number, part)) = next() {
            let part = Part::judge(input, tools.get_or_insert_with(|| input.tools()), part);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((number, part));
        }
    };
    pool.run((0..threads).map(|_| -> Task<'_> { Box::new(work) }).collect());
    // Does the work that the pool has not done.
    work();
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_cached_key(|&(number, _)| number.to_u64());
    found.into_iter().map(|(_, found)| found).collect()
}
