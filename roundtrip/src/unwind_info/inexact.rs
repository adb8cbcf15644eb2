//! PCs for which an entry is not exact: steps into the body or out of it, or differences. [`Inexact::decide`] tells
//! them apart when the whole function has been seen.

use std::ops::Range;

use cfipack_format::Address;

use super::Table;
use super::calls::{each_return, holds_call};
use super::report::{Difference, Report};
use crate::cfi::Function;

/// The greatest number of ranges that are kept before they are decided. Only hostile input has a function with more.
const MOST_OPEN: usize = 1 << 16;

/// The undecided ranges of a function.
#[derive(Default)]
pub(super) struct Inexact {
    open: Vec<Open>,
    /// The number of ranges with words: first of ranges that cannot be steps, then of ranges that may be steps.
    described: [usize; 2],
    /// The return addresses of the function's calls. Empty as long as `open` is empty.
    returns: Vec<u64>,
    /// The starts of the entries with a known body, each with the first PC of the body.
    bodies: Vec<(Address, u64)>,
}

/// A range of PCs for which an entry is not exact.
struct Open {
    range: Range<u64>,
    /// The start of the entry.
    entry: Address,
    /// True if the row may be on the way into the entry's body or out of it.
    is_step: bool,
    /// The answers of both sides in words. Empty once enough differences are described.
    words: String,
}

impl Inexact {
    /// Starts the next function.
    pub(super) fn begin(&mut self) {
        self.bodies.clear();
    }

    /// Records the first PC of the body of the entry that starts at `entry`.
    pub(super) fn body(&mut self, entry: Address, pc: u64) {
        if self.bodies.last().is_none_or(|last| last.0 != entry) {
            self.bodies.push((entry, pc));
        }
    }

    /// Records a range for which the entry is not exact. `room` is the number of differences that may still be
    /// described.
    pub(super) fn add(
        &mut self,
        range: Range<u64>,
        entry: Address,
        is_step: bool,
        room: usize,
        words: impl FnOnce() -> String,
    ) {
        // Most ranges that may be steps turn out to be no differences. So each kind of range may use the whole room.
        let described = &mut self.described[usize::from(is_step)];
        let is_described = *described < room;
        *described += usize::from(is_described);
        let words = if is_described { words() } else { String::new() };
        self.open.push(Open { range, entry, is_step, words });
    }

    /// Returns whether there are so many ranges that they must be decided now.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() == MOST_OPEN
    }

    /// Decides the ranges. Counts steps and differences in the report, and describes at most `limit` differences there.
    pub(super) fn decide(
        &mut self,
        function: &Function,
        table: &Table<'_>,
        limit: usize,
        report: &mut Report,
    ) {
        self.described = [0; 2];
        if self.open.is_empty() {
            return;
        }
        self.find_calls(function, table);
        self.add_bodies();
        for open in self.open.drain(..) {
            let pcs = open.range.end - open.range.start;
            let body = self.bodies.binary_search_by_key(&open.entry, |body| body.0);
            if let Ok(at) = body
                && open.is_step
                && !holds_call(&self.returns, &open.range)
            {
                let is_before = open.range.start < self.bodies[at].1;
                let Report { pcs_prologue, pcs_epilogue, .. } = report;
                *(if is_before { pcs_prologue } else { pcs_epilogue }) += pcs;
                continue;
            }
            report.pcs_different += pcs;
            let (start, end) = (Address(open.range.start), Address(open.range.end));
            // A range without words is beyond the limit.
            let limit = if open.words.is_empty() { 0 } else { limit };
            report.describe(Difference { function: function.start, start, end, words: open.words }, limit);
        }
    }

    /// Adds bodies of entries that are exact at no PC. Such a body starts at the first row that cannot be a step.
    fn add_bodies(&mut self) {
        let exact = self.bodies.len();
        for open in self.open.iter().filter(|open| !open.is_step) {
            let is_exact = self.bodies[..exact].binary_search_by_key(&open.entry, |body| body.0).is_ok();
            let is_added = self.bodies[exact..].last().is_some_and(|last| last.0 == open.entry);
            if !is_exact && !is_added {
                self.bodies.push((open.entry, open.range.start));
            }
        }
        self.bodies.sort_unstable();
    }

    /// Finds the calls up to the end of the last open range.
    fn find_calls(&mut self, function: &Function, table: &Table<'_>) {
        let Self { open, returns, .. } = self;
        returns.clear();
        let Some(last) = open.iter().rev().find(|open| open.is_step) else { return };
        let start = function.start.0;
        let code = table.code.starting_at(function.start);
        let size = usize::try_from(last.range.end - start).unwrap_or(usize::MAX).min(code.len());
        each_return(table.arch, &code[..size], |offset| returns.push(start + offset));
    }
}
