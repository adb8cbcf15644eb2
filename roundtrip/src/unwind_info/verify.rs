//! Compares a table of compact unwind with the CFI of its functions.

use std::ops::Range;

use cfipack_format::cfi;
use cfipack_format::compact_unwind::{Flags, Mode};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Register, Rule, SectionOffset};

use super::inexact::Inexact;
use super::report::{Difference, Missing, Report};
use super::step::{is_body, is_step};
use super::words::{CfiWords, MeaningWords};
use super::{Entry, Meaning, Table};
use crate::cfi::{Answer, Evaluator, Function, Functions, Handler, Unevaluated};
use crate::limited::Limited;
use crate::options::Options;
use crate::sframe::Unverified;

/// Compares a table with the CFI of its functions, at every PC. The entry must be exact in the body of a function, and
/// at every call and system call.
///
/// Compact entries are compared with the rows that gimli evaluates, register by register. An entry in DWARF mode is
/// right if it gives the offset of the function's FDE, or of a record before this FDE. With the offset of a later FDE,
/// only readers that scan all of `__eh_frame` find the function's FDE.
pub fn verify(cfi: &[cfi::Section<'_>], table: &Table<'_>, options: &Options) -> Report {
    let functions = Functions::find(cfi);
    let report = Report {
        functions: functions.empty() + functions.as_slice().len().to_u64(),
        equal: functions.empty(),
        duplicates: functions.duplicates(),
        ..Report::default()
    };
    let missing = Limited::new(options.limit);
    let mut fdes: Vec<_> = functions.as_slice().iter().map(|function| function.fde.0).collect();
    fdes.sort_unstable();
    let mut verifier =
        Verifier { table, options, report, missing, inexact: Inexact::default(), fdes, last_fde: 0 };
    let mut evaluator = Evaluator::new(&functions);
    let mut done = Address(0);
    for function in functions.as_slice() {
        verifier.count_without_cfi(done, function.start);
        if evaluator.is_disputed(&functions, function) {
            verifier.count_disputed(function);
        } else {
            verifier.last_fde = functions.last_fde(function).0;
            verifier.judge_function(function, &mut evaluator);
        }
        done = function.end;
    }
    verifier.count_without_cfi(done, Address(u64::MAX));
    for unreadable in functions.unreadable() {
        verifier.report.functions += 1;
        verifier.count_unjudged(None, unreadable.error.into(), unreadable.words("__eh_frame"));
    }
    let mut report = verifier.report;
    let (missing, more) = verifier.missing.finish();
    report.differences.extend(missing.into_iter().map(Difference::from));
    report.more_differences += more;
    report
}

struct Verifier<'v> {
    table: &'v Table<'v>,
    options: &'v Options,
    report: Report,
    missing: Limited<Missing>,
    /// The PCs of the current function for which its entries are not exact.
    inexact: Inexact,
    /// Offsets of the FDEs, in ascending order.
    fdes: Vec<usize>,
    /// The offset of the last FDE for the current function. If several FDEs agree, a reader may find any of them.
    last_fde: usize,
}

impl Verifier<'_> {
    fn judge_function(&mut self, function: &Function, evaluator: &mut Evaluator<'_>) {
        let counts = |report: &Report| {
            let Report { pcs_equal, pcs_dwarf, pcs_scanned, pcs_different, pcs_missing, .. } = *report;
            [pcs_equal, pcs_dwarf, pcs_scanned, pcs_different, pcs_missing, report.handlers_different]
        };
        let before = counts(&self.report);
        let mut judged = function.start.0;
        self.inexact.begin();
        let result = evaluator.evaluate_registers(function, |range, answer, registers, _| {
            judged = range.end;
            self.compare(function, range, answer, registers);
        });
        self.inexact.decide(function, self.table, self.options.limit, &mut self.report);
        if let Ok(handler) = evaluator.handler(function) {
            self.compare_handler(function, &handler);
        }
        let report = &mut self.report;
        report.pcs += function.end.0 - function.start.0;
        report.pcs_unjudged += function.end.0 - judged;
        let mut added = counts(report);
        added.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        let [equal, dwarf, scanned, different, missing, handlers_different] = added;
        if different != 0 || missing != 0 || handlers_different != 0 {
            report.contradicted.push(function.start);
        }
        match result {
            _ if different != 0 => report.different += 1,
            Err(error) => self.count_unevaluated(function, error),
            Ok(()) if missing != 0 => {
                report.missing += 1;
                let found = self.table.find(function.start);
                let reason = if found.is_some() { "no-unwind-information" } else { "not-in-the-table" };
                *report.reasons.entry(reason.to_owned()).or_default() += 1;
            }
            Ok(()) if scanned != 0 => report.scanned += 1,
            Ok(()) if equal == 0 && dwarf != 0 => report.dwarf += 1,
            Ok(()) => report.equal += 1,
        }
    }

    /// Compares a range of PCs for which the CFI gives one answer.
    fn compare(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        registers: &[(Register, Rule)],
    ) {
        let mut pc = range.start;
        let mut number = self.table.first_ending_after(Address(pc));
        while pc < range.end {
            let entry = self.table.entries.get(number);
            let Some(entry) = entry.filter(|entry| entry.start.0 < range.end) else {
                return self.judge_without_entry(function, pc..range.end, answer);
            };
            if pc < entry.start.0 {
                self.judge_without_entry(function, pc..entry.start.0, answer);
                pc = entry.start.0;
            }
            let end = entry.end.0.min(range.end);
            self.judge_entry(function, pc..end, entry, answer, registers);
            pc = end;
            number += 1;
        }
    }

    /// Judges PCs without an entry.
    fn judge_without_entry(&mut self, function: &Function, range: Range<u64>, answer: &Answer) {
        match self.table.elsewhere {
            Meaning::Dwarf => self.report.pcs_dwarf += range.end - range.start,
            _ => self.judge_without_meaning(function, range, answer, false),
        }
    }

    /// Judges PCs for which the table has nothing, or an entry without unwind information.
    fn judge_without_meaning(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        has_entry: bool,
    ) {
        let pcs = range.end - range.start;
        if matches!(answer, Answer::Nothing) {
            self.report.pcs_equal += pcs;
            return;
        }
        self.report.pcs_missing += pcs;
        let (start, end) = (Address(range.start), Address(range.end));
        self.missing.add(Missing { function: function.start, start, end, has_entry });
    }

    /// Compares a range of PCs that have the same entry.
    fn judge_entry(
        &mut self,
        function: &Function,
        range: Range<u64>,
        entry: &Entry,
        answer: &Answer,
        registers: &[(Register, Rule)],
    ) {
        let arch = self.table.arch;
        let pcs = range.end - range.start;
        let meaning = self.table.meaning(entry);
        let is_step = match (answer, meaning) {
            (_, Meaning::Nothing) => {
                return self.judge_without_meaning(function, range, answer, true);
            }
            (_, Meaning::Dwarf) if entry.encoding.dwarf_offset().to_usize() <= self.last_fde => {
                self.report.pcs_dwarf += pcs;
                return;
            }
            (_, Meaning::Dwarf) if self.is_fde(entry.encoding.dwarf_offset()) => {
                self.report.pcs_scanned += pcs;
                return;
            }
            (Answer::Row(row) | Answer::SignedWithPc { row, .. }, Meaning::Row(body, saved))
                if is_signed_alike(arch, function, answer, entry) =>
            {
                let body = (body, saved);
                if is_body(arch, row, registers, &body) {
                    self.report.pcs_equal += pcs;
                    self.inexact.body(entry.start, range.start);
                    return;
                }
                is_step(arch, row, registers, &body)
            }
            _ => false,
        };
        let words = || match meaning {
            Meaning::Dwarf => format!(
                "CFI: an FDE at {}; table: readers search for FDEs from offset {:#x} on",
                SectionOffset(self.last_fde),
                entry.encoding.dwarf_offset()
            ),
            _ => {
                format!("CFI: {}; table: {}", CfiWords(arch, answer, registers), MeaningWords(arch, meaning))
            }
        };
        let room = self.options.limit.saturating_sub(self.report.differences.len());
        self.inexact.add(range, entry.start, is_step, room, words);
        if self.inexact.is_full() {
            self.inexact.decide(function, self.table, self.options.limit, &mut self.report);
        }
    }

    /// Compares personality and LSDA, unless the entry leaves them to the FDE. An LSDA belongs to the start of an
    /// entry.
    fn compare_handler(&mut self, function: &Function, cfi: &Handler) {
        let Some(entry) = self.table.find(function.start) else { return };
        if !matches!(self.table.meaning(entry), Meaning::Row(..)) {
            return;
        }
        let personality = Some(Address(entry.personality)).filter(|slot| slot.0 != 0);
        let lsda = entry.lsda.filter(|_| entry.start == function.start);
        // A personality without an LSDA has no effect. An object's row names it by a symbol, and a table for an object by a
        // slot that a linker will place.
        let is_same_personality = match self.table.elsewhere {
            _ if lsda.is_none() => true,
            Meaning::Dwarf => personality.is_some() == cfi.personality.is_some(),
            _ => !self.table.has_slots || personality == cfi.personality,
        };
        let is_same = lsda == cfi.lsda && is_same_personality;
        if is_same {
            return;
        }
        self.report.handlers_different += 1;
        let words = |handler: &Handler| match (handler.lsda, handler.personality) {
            (None, _) => "no LSDA".to_owned(),
            (Some(lsda), None) => format!("the LSDA {lsda}"),
            (Some(lsda), Some(slot)) => format!("the LSDA {lsda}, and its personality through {slot}"),
        };
        let words = format!("CFI: {}; table: {}", words(cfi), words(&Handler { personality, lsda }));
        let Function { start, end, .. } = *function;
        self.report.describe(Difference { function: start, start, end, words }, self.options.limit);
    }

    /// Returns whether an FDE begins at an offset. A reader that looks for another FDE from there on goes on to the end
    /// of `__eh_frame`, and then scans `__eh_frame` from its start.
    fn is_fde(&self, offset: u32) -> bool {
        self.fdes.binary_search(&offset.to_usize()).is_ok()
    }

    /// Counts the compact entries for PCs between `start` and `end`, where the CFI has no function.
    fn count_without_cfi(&mut self, start: Address, end: Address) {
        let first = self.table.first_ending_after(start);
        for entry in self.table.entries[first..].iter().take_while(|entry| entry.start < end) {
            if !matches!(self.table.meaning(entry), Meaning::Row(..)) {
                continue;
            }
            let pcs = entry.end.min(end).0.saturating_sub(entry.start.max(start).0);
            self.report.pcs_without_cfi += pcs;
            // An entry that also covers the function before the gap is not counted again.
            self.report.without_cfi += u64::from(entry.start >= start && pcs != 0);
        }
    }

    /// Counts a function whose FDEs disagree.
    fn count_disputed(&mut self, function: &Function) {
        let pcs = function.end.0 - function.start.0;
        self.report.pcs += pcs;
        self.report.pcs_unjudged += pcs;
        self.count_unevaluated(function, Unevaluated::Disputed);
    }

    fn count_unevaluated(&mut self, function: &Function, error: Unevaluated) {
        self.count_unjudged(Some(function.start), error, error.to_string());
    }

    fn count_unjudged(&mut self, function: Option<Address>, error: Unevaluated, words: String) {
        let report = &mut self.report;
        report.unjudged += 1;
        *report.reasons.entry(error.to_string()).or_default() += 1;
        if report.unverified.len() < self.options.limit {
            report.unverified.push(Unverified { function, pc: None, missing: false, words });
        } else {
            report.more_unverified += 1;
        }
    }
}

/// Returns whether entry and CFI agree on the signature of the return address: with the stack pointer, or with the PC of
/// an instruction (mode 5 of arm64). An entry inside a function does not give the function's start, so its distance is not
/// compared.
fn is_signed_alike(arch: Arch, function: &Function, answer: &Answer, entry: &Entry) -> bool {
    let Entry { start, encoding, .. } = *entry;
    let is_with_pc = encoding.mode(arch) == Some(Mode::FramePauthLr);
    match *answer {
        Answer::SignedWithPc { at, .. } => {
            let signed_at = Address(start.0.wrapping_add(encoding.signing_at().into()));
            let is_there = signed_at == Address(function.start.0.wrapping_add(at));
            is_with_pc && (is_there || encoding.flags().contains(Flags::NOT_FUNCTION_START))
        }
        Answer::Row(row) => !(is_with_pc && row.signed),
        _ => true,
    }
}
