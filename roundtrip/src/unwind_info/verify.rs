//! A table against the CFI of its functions.

use std::ops::Range;

use cfipack_encoder::cfi;
use cfipack_format::{Address, Register, Row, Rule, Saved};

use super::calls::{each_return, holds_call};
use super::report::{Difference, Report};
use super::step::{is_body, is_step};
use super::words::{CfiWords, MeaningWords};
use super::{Entry, Meaning, Table};
use crate::cfi::{Answer, Evaluator, Function, Functions, Handler};
use crate::verify::Options;

/// Holds a table against the CFI of its functions, at every PC: exact in the body, and at every call.
///
/// Compact entries are compared with the rows that gimli evaluates, register by register. Entries in DWARF
/// mode are right if the function's FDE is reached from the offset that they give.
pub fn verify(cfi: &[cfi::Section<'_>], table: &Table<'_>, options: &Options) -> Report {
    let functions = Functions::find(cfi);
    let report = Report {
        functions: functions.empty() + functions.as_slice().len() as u64,
        equal: functions.empty(),
        duplicates: functions.duplicates(),
        ..Report::default()
    };
    let (open, returns, bodies) = (Vec::new(), Vec::new(), Vec::new());
    let mut verifier = Verifier { table, options, report, open, described: [0; 2], returns, bodies };
    let mut evaluator = Evaluator::new(&functions);
    let mut done = Address(0);
    for function in functions.as_slice() {
        verifier.gap(done, function.start);
        verifier.function(function, &mut evaluator);
        done = function.end;
    }
    verifier.gap(done, Address(u64::MAX));
    for unreadable in functions.unreadable() {
        verifier.report.functions += 1;
        verifier.unjudged(unreadable.error);
    }
    verifier.report
}

/// Ranges to decide on later, at once: more than any function has that was not made to have them, and few
/// enough to keep.
const MOST_OPEN: usize = 1 << 16;

struct Verifier<'v> {
    table: &'v Table<'v>,
    options: &'v Options,
    report: Report,
    /// Ranges of the function for which its entries are not exact and may be steps.
    open: Vec<Open>,
    /// How many of them have words, by whether they may be steps.
    described: [usize; 2],
    /// Where the function's calls return to, if `open` has anything.
    returns: Vec<u64>,
    /// The function's entries whose body has been met, and the first PC of it.
    bodies: Vec<(Address, u64)>,
}

/// PCs for which an entry is not exact.
struct Open {
    range: Range<u64>,
    /// Start of the entry.
    entry: Address,
    /// Whether the row is on the way into the entry's body or out of it.
    is_step: bool,
    /// What both say; empty once enough differences are described.
    words: String,
}

/// PCs of one function.
#[derive(Clone, Copy, Default)]
struct Tally {
    equal: u64,
    dwarf: u64,
    different: u64,
    missing: u64,
}

impl Verifier<'_> {
    fn function(&mut self, function: &Function, evaluator: &mut Evaluator<'_>) {
        let mut tally = Tally::default();
        let mut judged = function.start.0;
        self.bodies.clear();
        let result = evaluator.evaluate_registers(function, |range, answer, registers| {
            judged = range.end;
            self.compare(function, range, answer, registers, &mut tally);
        });
        self.close(function, &mut tally);
        if let Ok(handler) = evaluator.handler(function) {
            self.handler(function, &handler);
        }
        let report = &mut self.report;
        report.pcs += function.end.0 - function.start.0;
        report.pcs_equal += tally.equal;
        report.pcs_dwarf += tally.dwarf;
        report.pcs_different += tally.different;
        report.pcs_missing += tally.missing;
        report.pcs_unjudged += function.end.0 - judged;
        match result {
            _ if tally.different != 0 => report.different += 1,
            Err(error) => self.unjudged(error),
            Ok(()) if tally.missing != 0 => {
                report.missing += 1;
                let found = self.table.find(function.start);
                let reason = if found.is_some() { "no-unwind-information" } else { "not-in-the-table" };
                *report.reasons.entry(reason.to_owned()).or_default() += 1;
            }
            Ok(()) if tally.equal == 0 && tally.dwarf != 0 => report.dwarf += 1,
            Ok(()) => report.equal += 1,
        }
    }

    /// Compares some PCs for which the CFI gives one answer.
    fn compare(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        registers: &[(Register, Rule)],
        tally: &mut Tally,
    ) {
        let mut pc = range.start;
        let mut number = self.table.first_ending_behind(Address(pc));
        while pc < range.end {
            let entry = self.table.entries.get(number);
            let Some(entry) = entry.filter(|entry| entry.start.0 < range.end) else {
                return self.elsewhere(answer, range.end - pc, tally);
            };
            if pc < entry.start.0 {
                self.elsewhere(answer, entry.start.0 - pc, tally);
                pc = entry.start.0;
            }
            let end = entry.end.0.min(range.end);
            self.judge(function, pc..end, entry, answer, registers, tally);
            pc = end;
            number += 1;
        }
    }

    /// PCs for which there is no entry.
    fn elsewhere(&self, answer: &Answer, pcs: u64, tally: &mut Tally) {
        match self.table.elsewhere {
            Meaning::Dwarf => tally.dwarf += pcs,
            _ => tally.nothing(answer, pcs),
        }
    }

    /// Compares some PCs for which there is one entry.
    fn judge(
        &mut self,
        function: &Function,
        range: Range<u64>,
        entry: &Entry,
        answer: &Answer,
        registers: &[(Register, Rule)],
        tally: &mut Tally,
    ) {
        let arch = self.table.arch;
        let pcs = range.end - range.start;
        let meaning = self.table.meaning(entry);
        let mut is_step_of = None;
        match (answer, meaning) {
            (_, Meaning::Nothing) => return tally.nothing(answer, pcs),
            (_, Meaning::Dwarf) if entry.encoding.dwarf_offset() as usize <= function.fde.0 => {
                tally.dwarf += pcs;
                return;
            }
            (Answer::Row(row), Meaning::Row(body, saved)) => {
                if is_body(arch, row, registers, &(body, saved)) {
                    tally.equal += pcs;
                    if self.bodies.last().is_none_or(|last| last.0 != entry.start) {
                        self.bodies.push((entry.start, range.start));
                    }
                    return;
                }
                is_step_of = Some((row, (body, saved)));
            }
            _ => {}
        }
        let is_step =
            is_step_of.is_some_and(|(row, body): (&Row, (Row, Saved))| is_step(arch, row, registers, &body));
        let words = || match meaning {
            Meaning::Dwarf => format!(
                "the table has FDEs looked for from offset {:#x} on, and this one is at {}",
                entry.encoding.dwarf_offset(),
                function.fde
            ),
            _ => format!(
                "the CFI says {}; the table says {}",
                CfiWords(arch, answer, registers),
                MeaningWords(arch, meaning)
            ),
        };
        // Most steps are none of the differences, so both kinds have as many words as could be needed.
        let described = &mut self.described[usize::from(is_step)];
        let is_described = self.report.differences.len() + *described < self.options.limit;
        *described += usize::from(is_described);
        let words = if is_described { words() } else { String::new() };
        self.open.push(Open { range, entry: entry.start, is_step, words });
        if self.open.len() == MOST_OPEN {
            self.close(function, tally);
        }
    }

    /// Decides on the PCs that are not exact, now that the whole function has been seen.
    fn close(&mut self, function: &Function, tally: &mut Tally) {
        self.described = [0; 2];
        if self.open.is_empty() {
            return;
        }
        self.find_calls(function);
        // Where no PC is exact, the body is what is not even a step.
        let exact = self.bodies.len();
        for open in self.open.iter().filter(|open| !open.is_step) {
            let is_known = |bodies: &[(Address, u64)]| bodies.last().is_some_and(|last| last.0 == open.entry);
            let is_exact = self.bodies[..exact].binary_search_by_key(&open.entry, |body| body.0).is_ok();
            if !is_exact && !is_known(&self.bodies[exact..]) {
                self.bodies.push((open.entry, open.range.start));
            }
        }
        self.bodies.sort_unstable();
        for open in self.open.drain(..) {
            let pcs = open.range.end - open.range.start;
            let body = self.bodies.binary_search_by_key(&open.entry, |body| body.0);
            match body {
                Ok(at) if open.is_step && !holds_call(&self.returns, &open.range) => {
                    let is_before = open.range.start < self.bodies[at].1;
                    let Report { pcs_prologue, pcs_epilogue, .. } = &mut self.report;
                    *(if is_before { pcs_prologue } else { pcs_epilogue }) += pcs;
                    continue;
                }
                _ => tally.different += pcs,
            }
            let (start, end) = (Address(open.range.start), Address(open.range.end));
            let differences = &mut self.report.differences;
            if differences.len() < self.options.limit && !open.words.is_empty() {
                differences.push(Difference { function: function.start, start, end, words: open.words });
            }
        }
    }

    /// Compares personality and LSDA, where the function's entry does not leave them to the FDE. LSDAs count
    /// from the start of an entry.
    fn handler(&mut self, function: &Function, cfi: &Handler) {
        let Some(entry) = self.table.find(function.start) else { return };
        if !matches!(self.table.meaning(entry), Meaning::Row(..)) {
            return;
        }
        let personality = Some(Address(entry.personality)).filter(|slot| slot.0 != 0);
        let lsda = entry.lsda.filter(|_| entry.start == function.start);
        // Without an LSDA a personality has nothing to do.
        let is_same =
            lsda == cfi.lsda && (!self.table.has_slots || lsda.is_none() || personality == cfi.personality);
        if is_same {
            return;
        }
        self.report.handlers_different += 1;
        let differences = &mut self.report.differences;
        if differences.len() < self.options.limit {
            let words = |handler: &Handler| match (handler.lsda, handler.personality) {
                (None, _) => "no LSDA".to_owned(),
                (Some(lsda), None) => format!("the LSDA {lsda}"),
                (Some(lsda), Some(slot)) => format!("the LSDA {lsda}, and its personality through {slot}"),
            };
            let words = format!(
                "the CFI has {}; the table has {}",
                words(cfi),
                words(&Handler { personality, lsda })
            );
            let Function { start, end, .. } = *function;
            differences.push(Difference { function: start, start, end, words });
        }
    }

    /// Finds the calls up to the end of the last open range.
    fn find_calls(&mut self, function: &Function) {
        let Self { open, returns, table, .. } = self;
        returns.clear();
        let Some(last) = open.iter().rev().find(|open| open.is_step) else { return };
        let start = function.start.0;
        let code = table.code.starting_at(function.start);
        let size = usize::try_from(last.range.end - start).unwrap_or(usize::MAX).min(code.len());
        each_return(table.arch, &code[..size], |offset| returns.push(start + offset));
    }

    /// PCs for which there is no CFI.
    fn gap(&mut self, start: Address, end: Address) {
        let first = self.table.first_ending_behind(start);
        for entry in self.table.entries[first..].iter().take_while(|entry| entry.start < end) {
            if !matches!(self.table.meaning(entry), Meaning::Row(..)) {
                continue;
            }
            let pcs = entry.end.min(end).0.saturating_sub(entry.start.max(start).0);
            self.report.pcs_without_cfi += pcs;
            // An entry goes on behind a function that it also has.
            self.report.without_cfi += u64::from(entry.start >= start && pcs != 0);
        }
    }

    fn unjudged(&mut self, error: gimli::Error) {
        self.report.unjudged += 1;
        *self.report.reasons.entry(format!("gimli cannot evaluate the CFI: {error}")).or_default() += 1;
    }
}

impl Tally {
    /// PCs for which the table has nothing.
    fn nothing(&mut self, answer: &Answer, pcs: u64) {
        match answer {
            Answer::Nothing => self.equal += pcs,
            _ => self.missing += pcs,
        }
    }
}
