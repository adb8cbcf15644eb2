//! Judges a run of functions, the PCs between them and their tails.
//!
//! A part takes its functions in order of address. `is_equal` is the fast path: it needs a function of the table with
//! the same PCs. `judge_rows` compares row by row. Between functions, `judge_gaps` looks for PCs that only the table
//! answers for. [`Tails`] are PCs of a function after another function inside it.

use std::iter::Peekable;
use std::mem;
use std::ops::Range;

use cfipack_format::Address;
use cfipack_format::widen::ToUsize;

use super::agree::agree;
use super::equal_functions::Described;
use super::found::Found;
use super::input::{Input, Tools};
use super::without_verdict::{Cause, WithoutVerdict};
use crate::cfi::{Answer, Evaluator, Flags, Function, Functions, Unevaluated};
use crate::sframe::compare::{Outcome, against_cfi};
use crate::sframe::cursor::{Cursor, flags};
use crate::sframe::encoded::Encoded;
use crate::sframe::repeat::{Recurrence, count_answered, each_piece, lcm};
use crate::sframe::report::Difference;
use crate::sframe::table::Table;

/// The state of judging a part of the functions.
pub(super) struct Part<'q, 't> {
    input: &'q Input<'q, 't>,
    cursor: Cursor<'q, 't>,
    found: Found,
    /// The place of the last function that was counted as extra.
    last_extra: Option<usize>,
}

/// The numbers of PCs of a function, by the result of the comparison.
#[derive(Clone, Copy, Default)]
struct PcCounts {
    pub equal: u64,
    pub different: u64,
    pub missing: u64,
}

impl<'q, 't> Part<'q, 't> {
    /// Judges the functions with these indices and the gaps before them. The last part also judges the PCs after the
    /// last function.
    pub(super) fn judge(input: &'q Input<'q, 't>, tools: &mut Tools<'q, 't>, numbers: Range<usize>) -> Found {
        let functions = input.functions.as_slice();
        let mut done = if numbers.start == 0 { 0 } else { functions[numbers.start - 1].end.0 };
        let first = input.all_tails.partition_point(|tail| tail.start < done);
        let mut all_tails = input.all_tails[first..].iter().cloned().peekable();
        let mut part = Self {
            input,
            cursor: input.tables.cursor_at(done),
            found: Found::new(input.limit),
            last_extra: None,
        };
        for function in &functions[numbers.clone()] {
            part.judge_gaps(done..function.start.0, &mut all_tails);
            part.judge_function(function, tools);
            done = function.end.0;
        }
        if numbers.end == functions.len() {
            part.judge_gaps(done..u64::MAX, &mut all_tails);
        }
        part.found
    }

    /// Judges a function and its tails.
    fn judge_function(&mut self, function: &Function, tools: &mut Tools<'q, 't>) {
        let Input { functions, tables, signal, .. } = *self.input;
        let is_alone = !functions.has_tails(function) && !functions.has_duplicates(function);
        if is_alone && self.is_equal(function, tools) {
            self.count_equal(function);
            return;
        }
        let mut tails = Tails::find(function, functions, tables);
        let in_table = self.found.counts.unjudged_in_table;
        if tools.evaluator.has_disputed_rows(functions, function, signal) {
            self.count_disputed(function);
        } else {
            self.judge_rows(function, &mut tails, &mut tools.evaluator);
        }
        if self.count_unjudged_tails(tails) != 0 && self.found.counts.unjudged_in_table == in_table {
            self.found.counts.unjudged_in_table += 1;
        }
    }

    /// Returns whether a function of the table has exactly the same PCs, and CFI and table agree at every PC. Counts
    /// nothing.
    fn is_equal(&mut self, function: &Function, tools: &mut Tools<'q, 't>) -> bool {
        let Tools { evaluator, equal_functions, decoded } = tools;
        let (start, end) = (function.start.0, function.end.0);
        let Some((section, in_table)) = self.cursor.whole(start..end) else { return false };
        let Input { tables, arch, .. } = *self.input;
        let table = &tables.sections[section.to_usize()];
        let flags = flags(table, &in_table);
        // Sums of addresses wrap at the width of an address. So a function that crosses a multiple of 2^32 does not
        // count as a repetition of another function.
        let can_repeat = (start ^ (end - 1)) >> u32::BITS == 0;
        let mut described = None;
        if can_repeat && let Some(program) = evaluator.program(function) {
            let encoded = Encoded::with_rest(section, &in_table, flags);
            let this = Described { program, encoded, size: end - start };
            if equal_functions.has(&this, || evaluator.has_addresses(function)) {
                return true;
            }
            described = Some(this);
        }
        let rows = decoded.walk(section, table.endian(), &in_table);
        let agreed = rows.and_then(|rows| agree(function, rows, flags, arch, evaluator));
        if let (Some(described), Some(agreed)) = (described, &agreed) {
            equal_functions.insert(&described, agreed);
        }
        agreed.is_some()
    }

    /// Counts a function for which CFI and table agree.
    fn count_equal(&mut self, function: &Function) {
        let (counts, pcs) = (&mut self.found.counts, function.end.0 - function.start.0);
        counts.functions += 1;
        counts.equal += 1;
        counts.pcs += pcs;
        counts.pcs_equal += pcs;
    }

    /// Judges a function row by row.
    fn judge_rows(
        &mut self,
        function: &Function,
        tails: &mut Tails<'q, 't, impl Iterator<Item = Range<u64>>>,
        evaluator: &mut Evaluator<'_>,
    ) {
        let mut pc_counts = PcCounts::default();
        let mut judged = function.start.0;
        let result = evaluator.evaluate(&tails.with(function), |range, answer, flags| {
            let head = range.start..range.end.min(function.end.0);
            if !head.is_empty() {
                judged = head.end;
                self.compare(function, head, answer, flags, &mut pc_counts);
            }
            self.compare_tails(function, range, answer, flags, tails, &mut pc_counts);
        });
        let in_table = self.count_in_table(judged..function.end.0);
        let counts = &mut self.found.counts;
        counts.functions += 1;
        counts.pcs += function.end.0 - function.start.0;
        counts.pcs_equal += pc_counts.equal;
        counts.pcs_different += pc_counts.different;
        counts.pcs_missing += pc_counts.missing;
        counts.pcs_unjudged += function.end.0 - judged;
        counts.pcs_unjudged_in_table += in_table;
        match result {
            _ if pc_counts.different != 0 => counts.different += 1,
            Err(error) => {
                counts.unjudged_in_table += u64::from(in_table != 0);
                self.add_without_verdict(function, Cause::Unevaluated(error));
            }
            Ok(()) if pc_counts.missing != 0 => self.add_without_verdict(function, Cause::Missing),
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
        pc_counts: &mut PcCounts,
    ) {
        let arch = self.input.arch;
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
                    Outcome::Equal => pc_counts.equal += pcs,
                    Outcome::Missing => pc_counts.missing += pcs,
                    Outcome::Different => {
                        pc_counts.different += pcs;
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
    fn count_in_table(&mut self, range: Range<u64>) -> u64 {
        let (mut pc, mut pcs) = (range.start, 0);
        while pc < range.end {
            let segment = self.cursor.seek(pc);
            let end = segment.end.min(range.end);
            pcs += count_answered(pc..end, &segment);
            pc = end;
        }
        pcs
    }

    /// Judges a range of PCs without CFI. If the table answers there, this is a difference, unless the PCs are padding
    /// or the caller has judged them.
    fn judge_gap(&mut self, range: Range<u64>) {
        let Input { tables, arch, padding, .. } = *self.input;
        let mut pc = range.start;
        while pc < range.end {
            let segment = self.cursor.seek(pc);
            let end = segment.end.min(range.end);
            if let Some(place) = segment.function {
                let pcs = count_answered(pc..end, &segment);
                // A function of the table that begins before the range and ends after it has merged two functions.
                let is_merged = |extent: Range<u64>| extent.start < range.start && extent.end > range.end;
                let is_small = range.end - range.start <= padding;
                let is_padding = is_small && tables.extent(segment.piece).is_some_and(is_merged);
                let counts = &mut self.found.counts;
                if is_padding {
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
    fn count_disputed(&mut self, function: &Function) {
        let pcs = function.end.0 - function.start.0;
        let in_table = self.count_in_table(function.start.0..function.end.0);
        let counts = &mut self.found.counts;
        counts.functions += 1;
        counts.pcs += pcs;
        counts.pcs_unjudged += pcs;
        counts.unjudged_in_table += u64::from(in_table != 0);
        counts.pcs_unjudged_in_table += in_table;
        self.add_without_verdict(function, Cause::Unevaluated(Unevaluated::Disputed));
    }

    fn add_without_verdict(&mut self, function: &Function, cause: Cause) {
        self.found.without_verdict.push(WithoutVerdict { function: Some(*function), cause });
    }

    /// Compares the PCs of a range that belong to tails.
    fn compare_tails(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        flags: Flags,
        tails: &mut Tails<'q, 't, impl Iterator<Item = Range<u64>>>,
        pc_counts: &mut PcCounts,
    ) {
        let Some(cursor) = &mut tails.cursor else { return };
        while let Some(tail) = tails.rest.peek_mut().filter(|tail| tail.start < range.end) {
            let pcs = tail.start.max(range.start)..tail.end.min(range.end);
            tail.start = pcs.end;
            if tail.start == tail.end {
                tails.rest.next();
            }
            let mut here = PcCounts::default();
            mem::swap(&mut self.cursor, cursor);
            self.compare(function, pcs, answer, flags, &mut here);
            mem::swap(&mut self.cursor, cursor);
            self.found.counts.pcs += here.equal + here.different;
            self.found.counts.pcs_hidden += here.missing;
            pc_counts.equal += here.equal;
            pc_counts.different += here.different;
        }
    }

    /// Counts the PCs of the tails that gimli could not judge. Returns the number of these PCs for which the table
    /// answers.
    fn count_unjudged_tails(&mut self, tails: Tails<'_, '_, impl Iterator<Item = Range<u64>>>) -> u64 {
        let Some(mut cursor) = tails.cursor else { return 0 };
        let mut all_in_table = 0;
        for tail in tails.rest {
            let mut pc = tail.start;
            while pc < tail.end {
                let segment = cursor.seek(pc);
                let end = segment.end.min(tail.end);
                let in_table = count_answered(pc..end, &segment);
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

    /// Judges the PCs without CFI between two functions. Skips the tails in the range.
    fn judge_gaps(&mut self, range: Range<u64>, tails: &mut Peekable<impl Iterator<Item = Range<u64>>>) {
        let mut start = range.start;
        while let Some(tail) = tails.next_if(|tail| tail.start < range.end) {
            self.judge_gap(start..tail.start);
            start = tail.end;
        }
        self.judge_gap(start..range.end);
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
    fn find<'f, 'a>(
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
