//! The functions of a file, judged in parts by the threads of a pool.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use cfipack_format::Arch;

use super::decoded::Decoded;
use super::found::Found;
use super::known::Known;
use super::part::Part;
use crate::cfi::{Evaluator, Functions};
use crate::sframe::table::Table;
use cfipack_format::pool::{Pool, Task};

/// Parts for each thread: the last ones to be judged take different times.
const PARTS: usize = 8;
/// Functions of a part at least.
const FEW: usize = 128;

/// What is to be judged.
#[derive(Debug)]
pub(super) struct Question<'q, 't> {
    pub functions: &'q Functions<'q>,
    /// The tails of all functions, in order of address.
    pub all_tails: Vec<Range<u64>>,
    pub tables: &'q Table<'t>,
    pub arch: Arch,
    /// Whether a table may represent which functions are signal frames.
    pub signal: bool,
    pub padding: u64,
    /// How many differences are described.
    pub limit: usize,
}

/// What a thread uses for all parts that it judges.
pub(super) struct Tools<'q, 't> {
    pub evaluator: Evaluator<'q>,
    pub known: Known<'q, 't>,
    pub decoded: Decoded,
}

impl<'q, 't> Question<'q, 't> {
    fn tools(&self) -> Tools<'q, 't> {
        let count = self.functions.as_slice().len();
        Tools { evaluator: Evaluator::new(self.functions), known: Known::new(count), decoded: Decoded::new() }
    }
}

/// What was found, in parts in order of address.
pub(super) fn judge(question: &Question<'_, '_>, pool: &dyn Pool) -> Vec<Found> {
    let count = question.functions.as_slice().len();
    let threads = pool.threads().min(count / FEW);
    if threads <= 1 {
        return vec![Part::judge(question, &mut question.tools(), 0..count)];
    }
    let size = count.div_ceil(threads * PARTS).max(FEW);
    let parts = (0..count).step_by(size).map(|first| first..count.min(first + size));
    let (parts, found) = (Mutex::new(parts.enumerate()), Mutex::new(Vec::new()));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut tools = None;
        while let Some((number, part)) = next() {
            let part = Part::judge(question, tools.get_or_insert_with(|| question.tools()), part);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((number, part));
        }
    };
    pool.run((0..threads).map(|_| -> Task<'_> { Box::new(work) }).collect());
    // What the pool did not run.
    work();
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_cached_key(|&(number, _)| number as u64);
    found.into_iter().map(|(_, found)| found).collect()
}
