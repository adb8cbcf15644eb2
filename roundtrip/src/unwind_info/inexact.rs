//! PCs for which an entry is not exact: steps into the body and out of it, or differences. Which they are
//! is known when the whole function has been seen.

use std::ops::Range;

use cfipack_format::Address;

use super::Table;
use super::calls::{each_return, holds_call};
use super::report::{Difference, Report};
use crate::cfi::Function;

/// Ranges to decide on later, at once: more than any function has that was not made to have them, and few
/// enough to keep.
const MOST_OPEN: usize = 1 << 16;

/// The open questions about a function.
#[derive(Default)]
pub(super) struct Inexact {
    open: Vec<Open>,
    /// The number of those with words, by whether they may be steps.
    described: [usize; 2],
    /// The return addresses of the function's calls, if `open` has anything.
    returns: Vec<u64>,
    /// The function's entries whose body has been met, and the first PC of it.
    bodies: Vec<(Address, u64)>,
}

/// PCs for which an entry is not exact.
struct Open {
    range: Range<u64>,
    /// Start of the entry.
    entry: Address,
    /// True if the row is on the way into the entry's body or out of it.
    is_step: bool,
    /// The description by both; empty once enough differences are described.
    words: String,
}

impl Inexact {
    /// Goes on to another function.
    pub(super) fn begin(&mut self) {
        self.bodies.clear();
    }

    /// Meets the body of the entry that starts at `entry`.
    pub(super) fn body(&mut self, entry: Address, pc: u64) {
        if self.bodies.last().is_none_or(|last| last.0 != entry) {
            self.bodies.push((entry, pc));
        }
    }

    /// Meets PCs for which it is not exact. There is room for so many more words of differences.
    pub(super) fn add(
        &mut self,
        range: Range<u64>,
        entry: Address,
        is_step: bool,
        room: usize,
        words: impl FnOnce() -> String,
    ) {
        // Most steps are none of the differences, so both kinds have as many words as could be needed.
        let described = &mut self.described[usize::from(is_step)];
        let is_described = *described < room;
        *described += usize::from(is_described);
        let words = if is_described { words() } else { String::new() };
        self.open.push(Open { range, entry, is_step, words });
    }

    /// Returns whether it must be decided on the data at hand, with what has been seen of the function so far.
    pub(super) fn is_full(&self) -> bool {
        self.open.len() == MOST_OPEN
    }

    /// Decides. Steps are counted in the report, differences described there, `limit` at most; returns how
    /// many PCs differ.
    pub(super) fn decide(
        &mut self,
        function: &Function,
        table: &Table<'_>,
        limit: usize,
        report: &mut Report,
    ) -> u64 {
        self.described = [0; 2];
        if self.open.is_empty() {
            return 0;
        }
        self.find_calls(function, table);
        self.add_bodies();
        let mut different = 0;
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
            different += pcs;
            let (start, end) = (Address(open.range.start), Address(open.range.end));
            if report.differences.len() < limit && !open.words.is_empty() {
                let difference = Difference { function: function.start, start, end, words: open.words };
                report.differences.push(difference);
            } else {
                report.more_differences += 1;
            }
        }
        different
    }

    /// Adds bodies where no PC is exact: the body is what is not even a step.
    fn add_bodies(&mut self) {
        let exact = self.bodies.len();
        for open in self.open.iter().filter(|open| !open.is_step) {
            let is_known = |bodies: &[(Address, u64)]| bodies.last().is_some_and(|last| last.0 == open.entry);
            let is_exact = self.bodies[..exact].binary_search_by_key(&open.entry, |body| body.0).is_ok();
            if !is_exact && !is_known(&self.bodies[exact..]) {
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
