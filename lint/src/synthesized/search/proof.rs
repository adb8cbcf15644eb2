//! Decides whether code shows by itself that it is a function.

use std::collections::BTreeSet;

use cfipack_code::{Code, Doubt, Flow};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Family};

use super::super::paths::{Looks, Paths, calls_without_frame, follow, looks};
use super::super::uncovered::Evidence;
use super::{ALIGNMENT, Search};
use crate::padding;

/// What code shows by itself.
pub(super) enum Shown {
    Nothing,
    /// It is compiled code: it saves its caller's registers, or calls a function that never returns. A function can
    /// follow it.
    Compiled,
    /// It is a function.
    Function,
}

impl Search<'_, '_> {
    /// Returns the paths from `start` up to the first function that they call. It may follow without padding.
    pub(super) fn before_called(&mut self, start: Address, paths: &Paths) -> Option<Paths> {
        let end = start.offset(paths.end as i64);
        let called = paths.calls.iter().filter(|called| start < **called && **called < end).min();
        let before = self.paths(start, *called?)?;
        self.work = self.work.saturating_sub(before.decoded);
        Some(before)
    }

    /// Returns whether code shows by itself that it is a function: every path from its start is known, and a path returns or
    /// ends in a jump to a function. A lone return or jump shows nothing, because bytes of data can look like it.
    pub(super) fn shown(&mut self, start: Address, paths: &Paths) -> Shown {
        if paths.instructions.len() < 2 {
            return Shown::Nothing;
        }
        let Some((bytes, relocated)) = self.memory.code(start, paths.end) else { return Shown::Nothing };
        let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
        self.decoded.decode(&code);
        let is_compiled = match looks(self.arch, &code, &self.decoded) {
            Looks::Data => return Shown::Nothing,
            Looks::Plain if !self.is_aligned(start, start.offset(paths.end as i64)) => return Shown::Nothing,
            Looks::Saving if start.0.is_multiple_of(ALIGNMENT) => true,
            Looks::Saving | Looks::Plain => !self.returns.ends(&self.decoded).is_empty(),
        };
        let mut analysis = follow(code, &self.decoded, self.memory, &paths.noreturn);
        let leaves = analysis.leaves_like_a_function() && !calls_without_frame(&analysis);
        if leaves && analysis.returns() {
            return Shown::Function;
        }
        let is_followed = analysis.doubts().all(|(doubt, _)| doubt == Doubt::IndirectJump);
        let shown = if is_compiled && is_followed { Shown::Compiled } else { Shown::Nothing };
        let functions = if leaves { analysis.tail_calls() } else { BTreeSet::new() };
        drop(analysis);
        if functions.iter().any(|function| self.is_known(*function)) {
            return Shown::Function;
        }
        for function in functions {
            self.jumping.entry(function).or_default().push(start);
        }
        shown
    }

    /// Returns whether code without a call starts and ends as compilers align functions. Data can look like code that has no
    /// call and saves no register, but it mostly has other bytes before and after.
    fn is_aligned(&self, start: Address, end: Address) -> bool {
        let calls = self.decoded.iter().any(|one| matches!(one.flow, Flow::Call(_)));
        if calls || self.arch.family() != Family::X86 {
            return true;
        }
        let after = self.around(end).and_then(|range| self.memory.code(end, range.end.0 - end.0));
        let is_end = |(bytes, _): (&[u8], _)| {
            let padding = padding::len(self.arch, bytes);
            padding == bytes.len() || padding.to_u64() >= end.0.next_multiple_of(ALIGNMENT) - end.0
        };
        start.0.is_multiple_of(ALIGNMENT) && (self.found.contains_key(&end) || after.is_none_or(is_end))
    }

    /// Returns whether a function is known to start at an address.
    fn is_known(&self, start: Address) -> bool {
        let is_found = self.found.get(&start).is_some_and(|found| found.evidence != Evidence::Jump);
        is_found || self.memory.is_stub(start) || self.around(start).is_none() && self.returns.is_start(start)
    }
}
