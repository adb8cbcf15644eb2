//! Judges a run of functions, the PCs between them and their tails.
//!
//! A part takes its functions in order of address. `is_equal` is the fast path: it needs one function of the table with
//! the same PCs. `function` goes row by row. Between functions, `gaps` looks for PCs that only the table answers for.
//! [`Tails`] are PCs of a function after another function inside it.

use std::iter::Peekable;
use std::mem;
use std::ops::Range;

use cfipack_format::Address;
use cfipack_format::widen::ToUsize;

use super::agree::agree;
use super::found::Found;
use super::known::Described;
use super::left::{Cause, Left};
use super::question::{Question, Tools};
use crate::cfi::{Answer, Evaluator, Flags, Function, Functions};
use crate::sframe::compare::{Outcome, against_cfi};
use crate::sframe::cursor::{Cursor, flags};
use crate::sframe::encoded::Encoded;
use crate::sframe::repeat::{Recurrence, answered, each_piece, lcm};
use crate::sframe::report::Difference;
use crate::sframe::table::Table;

/// The state of judging a part of the functions.
pub(super) struct Part<'q, 't> {
    question: &'q Question<'q, 't>,
    cursor: Cursor<'q, 't>,
    found: Found,
    /// The place of the last function that was counted as extra.
    last_extra: Option<usize>,
}

/// Counts of a function's PCs.
#[derive(Clone, Copy, Default)]
struct Tally {
    pub equal: u64,
    pub different: u64,
    pub missing: u64,
}

impl<'q, 't> Part<'q, 't> {
    /// Judges the functions with these indices and the gaps before them. The last part also judges the PCs after the
    /// last function.
    pub(super) fn judge(
        question: &'q Question<'q, 't>,
        tools: &mut Tools<'q, 't>,
        numbers: Range<usize>,
    ) -> Found {
        let functions = question.functions.as_slice();
        let before = numbers.start.checked_sub(1).and_then(|before| functions.get(before));
        let mut done = before.map_or(0, |before| before.end.0);
        let first = question.all_tails.partition_point(|tail| tail.start < done);
        let mut all_tails = question.all_tails[first..].iter().cloned().peekable();
        let mut part = Self {
            question,
            cursor: question.tables.cursor_at(done),
            found: Found::new(question.limit),
            last_extra: None,
        };
        for function in &functions[numbers.clone()] {
            part.gaps(done..function.start.0, &mut all_tails);
            part.one(function, tools);
            done = function.end.0;
        }
        if numbers.end == functions.len() {
            part.gaps(done..u64::MAX, &mut all_tails);
        }
        part.found
    }

    /// Judges a function and its tails.
    fn one(&mut self, function: &Function, tools: &mut Tools<'q, 't>) {
        let Question { functions, tables, signal, .. } = *self.question;
        let is_alone = !functions.has_tails(function) && !functions.has_duplicates(function);
        if is_alone && self.is_equal(function, tools) {
            self.equal(function);
            return;
        }
        let mut tails = Tails::of(function, functions, tables);
        let in_table = self.found.counts.unjudged_in_table;
        if tools.evaluator.has_disputed_rows(functions, function, signal) {
            self.disputed(function);
        } else {
            self.function(function, &mut tails, &mut tools.evaluator);
        }
        if self.unjudged_tails(tails) != 0 && self.found.counts.unjudged_in_table == in_table {
            self.found.counts.unjudged_in_table += 1;
        }
    }

    /// Returns whether a function of the table has exactly these PCs, and CFI and table agree at all of them. Counts
    /// nothing.
    fn is_equal(&mut self, function: &Function, tools: &mut Tools<'q, 't>) -> bool {
        let Tools { evaluator, known, decoded } = tools;
        let (start, end) = (function.start.0, function.end.0);
        let Some((section, in_table)) = self.cursor.whole(start..end) else { return false };
        let Question { tables, arch, .. } = *self.question;
        let table = &tables.sections[section.to_usize()];
        let flags = flags(table, &in_table);
        // Sums of addresses wrap at the width of an address. So a function that crosses a multiple of 2^32 does not count
        // as a repetition of another function.
        let can_repeat = (start ^ (end - 1)) >> u32::BITS == 0;
        let described = can_repeat.then(|| evaluator.program(function)).flatten().map(|program| Described {
            program,
            encoded: Encoded::with_rest(section, &in_table, flags),
            size: end - start,
        });
        if described.is_some_and(|it| known.has(&it, || evaluator.has_addresses(function))) {
            return true;
        }
        let rows = decoded.walk(section, table.endian(), &in_table);
        let agreed = rows.and_then(|rows| agree(function, rows, flags, arch, evaluator));
        if let (Some(described), Some(agreed)) = (described, &agreed) {
            known.insert(&described, agreed);
        }
        agreed.is_some()
    }

    /// Counts a function for which CFI and table agree.
    fn equal(&mut self, function: &Function) {
        let (counts, pcs) = (&mut self.found.counts, function.end.0 - function.start.0);
        counts.functions += 1;
        counts.equal += 1;
        counts.pcs += pcs;
        counts.pcs_equal += pcs;
    }

    /// Judges a function row by row.
    fn function(
        &mut self,
        function: &Function,
        tails: &mut Tails<'q, 't, impl Iterator<Item = Range<u64>>>,
        evaluator: &mut Evaluator<'_>,
    ) {
        let mut tally = Tally::default();
        let mut judged = function.start.0;
        let result = evaluator.evaluate(&tails.with(function), |range, answer, flags| {
            let head = range.start..range.end.min(function.end.0);
            if !head.is_empty() {
                judged = head.end;
                self.compare(function, head, answer, flags, &mut tally);
            }
            self.compare_tails(function, range, answer, flags, tails, &mut tally);
        });
        let in_table = self.answered(judged..function.end.0);
        let counts = &mut self.found.counts;
        counts.functions += 1;
        counts.pcs += function.end.0 - function.start.0;
        counts.pcs_equal += tally.equal;
        counts.pcs_different += tally.different;
        counts.pcs_missing += tally.missing;
        counts.pcs_unjudged += function.end.0 - judged;
        counts.pcs_unjudged_in_table += in_table;
        match result {
            _ if tally.different != 0 => counts.different += 1,
            Err(error) => {
                counts.unjudged_in_table += u64::from(in_table != 0);
                self.leave(function, Cause::Unevaluated(error));
            }
            Ok(()) if tally.missing != 0 => self.leave(function, Cause::Missing),
            Ok(()) => counts.equal += 1,
        }
    }

    /// Compares a range of PCs for which the CFI gives one answer.
    fn compare(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        flags: Flags,
        tally: &mut Tally,
    ) {
        let arch = self.question.arch;
        let Self { cursor, found: Found { differences, .. }, .. } = self;
        let is_plt = matches!(answer, Answer::Plt { .. });
        let mut pc = range.start;
        while pc < range.end {
            let segment = cursor.seek(pc);
            let end = segment.end.min(range.end);
            let period = if is_plt { lcm(16, segment.period()) } else { segment.period() };
            let until = |pc| segment.until(pc).min(answer.until(pc));
            each_piece(pc..end, period, until, |range, recurrence| {
                let pcs = (range.end - range.start) * recurrence.times;
                let in_stub = is_plt.then(|| answer.at(range.start));
                let (cfi, table) = (in_stub.as_ref().unwrap_or(answer), segment.at(range.start));
                match against_cfi(cfi, flags, table, arch) {
                    Outcome::Equal => tally.equal += pcs,
                    Outcome::Missing => tally.missing += pcs,
                    Outcome::Different => {
                        tally.different += pcs;
                        differences.add(Difference {
                            arch,
                            function: Some(function.start),
                            start: Address(range.start),
                            end: Address(range.end),
                            recurrence,
                            cfi: Some((*cfi, flags)),
                            table: *table,
                        });
                    }
                }
            });
            pc = end;
        }
    }

    /// Counts the PCs of a range for which the table answers. The range must not be before the cursor.
    fn answered(&mut self, range: Range<u64>) -> u64 {
        let (mut pc, mut pcs) = (range.start, 0);
        while pc < range.end {
            let segment = self.cursor.seek(pc);
            let end = segment.end.min(range.end);
            pcs += answered(pc..end, &segment);
            pc = end;
        }
        pcs
    }

    /// Judges a range of PCs without CFI. If the table answers there, this is a difference, unless the PCs are padding
    /// or the caller has judged them.
    fn gap(&mut self, range: Range<u64>) {
        let Question { tables, arch, padding, .. } = *self.question;
        let mut pc = range.start;
        while pc < range.end {
            let segment = self.cursor.seek(pc);
            let end = segment.end.min(range.end);
            if let Some(place) = segment.function {
                let pcs = answered(pc..end, &segment);
                let holds_both = || {
                    tables
                        .extent(segment.piece)
                        .is_some_and(|extent| extent.start < range.start && extent.end > range.end)
                };
                let counts = &mut self.found.counts;
                if range.end - range.start <= padding && holds_both() {
                    counts.pcs += pcs;
                    counts.pcs_padding += pcs;
                } else if tables.is_judged(&(pc..end)) {
                    counts.pcs += pcs;
                    counts.pcs_judged += pcs;
                } else if pcs != 0 {
                    counts.pcs += pcs;
                    counts.pcs_different += pcs;
                    counts.pcs_extra += pcs;
                    if self.last_extra != Some(place) {
                        self.last_extra = Some(place);
                        self.found.extra.insert(place);
                    }
                    self.found.differences.add(Difference {
                        arch,
                        function: None,
                        start: Address(pc),
                        end: Address(end),
                        recurrence: Recurrence::ONCE,
                        cfi: None,
                        table: *segment.at(pc),
                    });
                }
            }
            pc = end;
        }
    }

    /// Counts a function whose FDEs disagree.
    fn disputed(&mut self, function: &Function) {
        let pcs = function.end.0 - function.start.0;
        let in_table = self.answered(function.start.0..function.end.0);
        let counts = &mut self.found.counts;
        counts.functions += 1;
        counts.pcs += pcs;
        counts.pcs_unjudged += pcs;
        counts.unjudged_in_table += u64::from(in_table != 0);
        counts.pcs_unjudged_in_table += in_table;
        self.leave(function, Cause::Disputed);
    }

    fn leave(&mut self, function: &Function, cause: Cause) {
        self.found.left.push(Left { function: Some(*function), cause });
    }

    /// Compares the PCs of a range that belong to tails.
    fn compare_tails(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        flags: Flags,
        tails: &mut Tails<'q, 't, impl Iterator<Item = Range<u64>>>,
        tally: &mut Tally,
    ) {
        let Some(cursor) = &mut tails.cursor else { return };
        while let Some(tail) = tails.rest.peek_mut().filter(|tail| tail.start < range.end) {
            let pcs = tail.start.max(range.start)..tail.end.min(range.end);
            tail.start = pcs.end;
            if tail.start == tail.end {
                tails.rest.next();
            }
            let mut here = Tally::default();
            mem::swap(&mut self.cursor, cursor);
            self.compare(function, pcs, answer, flags, &mut here);
            mem::swap(&mut self.cursor, cursor);
            self.found.counts.pcs += here.equal + here.different;
            self.found.counts.pcs_hidden += here.missing;
            tally.equal += here.equal;
            tally.different += here.different;
        }
    }

    /// Counts the PCs of the tails that gimli could not judge. Returns the number of these PCs for which the table
    /// answers.
    fn unjudged_tails(&mut self, tails: Tails<'_, '_, impl Iterator<Item = Range<u64>>>) -> u64 {
        let Some(mut cursor) = tails.cursor else { return 0 };
        let mut all_in_table = 0;
        for tail in tails.rest {
            let mut pc = tail.start;
            while pc < tail.end {
                let segment = cursor.seek(pc);
                let end = segment.end.min(tail.end);
                let in_table = match segment.function {
                    Some(_) => answered(pc..end, &segment),
                    None => 0,
                };
                self.found.counts.pcs += in_table;
                self.found.counts.pcs_unjudged += in_table;
                self.found.counts.pcs_unjudged_in_table += in_table;
                all_in_table += in_table;
                self.found.counts.pcs_hidden += end - pc - in_table;
                pc = end;
            }
        }
        all_in_table
    }

    /// Judges the PCs without CFI between two functions. The tails in the range are left out.
    fn gaps(&mut self, range: Range<u64>, tails: &mut Peekable<impl Iterator<Item = Range<u64>>>) {
        let mut start = range.start;
        while let Some(tail) = tails.next_if(|tail| tail.start < range.end) {
            self.gap(start..tail.start);
            start = tail.end;
        }
        self.gap(start..range.end);
    }
}

/// The tails of a function that have not been judged yet.
///
/// A tail is a range of PCs after the end of another function that lies inside this function. For example, if an FDE
/// covers `0x10..0x40` and another FDE `0x20..0x30`, the tail is `0x30..0x40`. A search by start address does not find
/// the function for its tail. The same holds for a table, unless its producer cut the function. So a table need not
/// answer for a tail, but an answer must be right.
struct Tails<'v, 't, I: Iterator> {
    /// One past the last PC of the last tail.
    end: u64,
    rest: Peekable<I>,
    /// A cursor for the tails alone, or `None` if there are no tails. The part's own cursor cannot be used: it only
    /// moves forward, and the next functions are at lower addresses.
    cursor: Option<Box<Cursor<'v, 't>>>,
}

impl<'v, 't> Tails<'v, 't, std::iter::Empty<Range<u64>>> {
    fn of<'f, 'a>(
        function: &Function,
        functions: &'f Functions<'a>,
        tables: &'v Table<'t>,
    ) -> Tails<'v, 't, impl Iterator<Item = Range<u64>> + use<'f, 'a>> {
        let tails = functions.tails(function);
        let (first, end) = (tails.clone().next(), functions.with_tails(function).end.0);
        let cursor = first.map(|first| Box::new(tables.cursor_at(first.start)));
        Tails { end, rest: tails.peekable(), cursor }
    }
}

impl<I: Iterator<Item = Range<u64>>> Tails<'_, '_, I> {
    /// Extends the function to the end of its last tail.
    fn with(&self, function: &Function) -> Function {
        Function { end: Address(self.end), ..*function }
    }
}
