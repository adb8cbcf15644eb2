//! Verifies tables against the CFI of their file.

use std::collections::HashSet;
use std::ops::Range;

use cfipack_decoder::sframe::Section;
use cfipack_format::cfi;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Unsupported};

use super::compare::{Outcome, against_cfi};
use super::cursor::Cursor;
use super::missing::{MissingFunction, Reasons};
use super::repeat::{Recurrence, answered, each_piece, lcm};
use super::report::{Difference, Report, Unverified};
use super::table::Table;
use crate::cfi::{Answer, DISPUTED, Evaluator, Flags, Function, Functions, Unevaluated};
use crate::limited::Limited;
use crate::options::Options;
use tails::Tails;

/// Compares tables with the CFI of their file: every row at every PC of every function, both ways.
///
/// The CFI is evaluated by gimli, both are walked side by side, and no row is stored: time in proportion to
/// the rows, memory in proportion to the functions. A PC that only the table answers for is a difference.
///
/// Functions that the table lacks are counted under `not-in-the-table`, whatever the reason is.
pub fn verify(cfi: &[cfi::Section<'_>], tables: &Table<'_>, options: &Options) -> Report {
    run(cfi, tables, options, None)
}

/// The same, with the reason for each function that the table lacks, as `reason` gives it: what the table's
/// producer omitted, or what no table of that version can represent. `None` is for a function that could be in
/// the table: [`Report::unexplained`] counts those.
///
/// `reason` is called once for each of [`Report::missing`], in ascending order of address. It changes the words
/// of the report and no verdict.
pub fn verify_with_reasons<'a>(
    cfi: &[cfi::Section<'a>],
    tables: &Table<'_>,
    options: &Options,
    mut reason: impl FnMut(&MissingFunction<'a>) -> Option<Unsupported>,
) -> Report {
    run(cfi, tables, options, Some(&mut reason))
}

fn run<'a>(
    cfi: &[cfi::Section<'a>],
    tables: &Table<'_>,
    options: &Options,
    reasons: Option<Reasons<'_, 'a>>,
) -> Report {
    let functions = Functions::find(cfi);
    // A function that cannot be read may lie in any gap.
    let padding = if functions.unreadable().is_empty() { options.padding } else { 0 };
    let arch = cfi.first().map(|section| section.arch).or(tables.arch()).unwrap_or(Arch::Amd64);
    let mut faults = tables.faults_for(arch);
    let mut verifier = Verifier {
        cfi,
        reasons,
        cursor: tables.cursor(),
        arch,
        limit: options.limit,
        padding,
        report: Report {
            functions: functions.empty(),
            equal: functions.empty(),
            duplicates: functions.duplicates(),
            malformed: faults.len() as u64,
            ..Report::default()
        },
        differences: Limited::new(options.limit),
        last_extra: None,
        extra_in_pieces: HashSet::new(),
    };
    let mut evaluator = Evaluator::new(&functions);
    // Tables that do not represent which functions are signal frames cannot be wrong about it.
    let is_v2 = |table: &Section<'_>| table.version() == Version::V2;
    let signal = tables.sections.is_empty() || !tables.sections.iter().all(is_v2);
    let (mut done, mut all_tails) = (0, functions.all_tails().into_iter().peekable());
    for function in functions.as_slice() {
        verifier.gaps(done..function.start.0, &mut all_tails, tables);
        let mut tails = Tails::of(function, &functions, tables);
        let in_table = verifier.report.unjudged_in_table;
        if evaluator.has_disputed_rows(&functions, function, signal) {
            verifier.disputed(function);
        } else {
            verifier.function(function, &mut tails, &mut evaluator);
        }
        if verifier.unjudged_tails(tails) != 0 && verifier.report.unjudged_in_table == in_table {
            verifier.report.unjudged_in_table += 1;
        }
        done = function.end.0;
    }
    verifier.gaps(done..u64::MAX, &mut all_tails, tables);
    for unreadable in functions.unreadable() {
        verifier.report.functions += 1;
        verifier.report.unreadable += 1;
        verifier.not_evaluated(None, unreadable.error.into());
    }
    let mut report = verifier.report;
    (report.differences, report.more_differences) = verifier.differences.finish();
    report.differences.sort_by_key(|difference| difference.start);
    faults.truncate(options.limit);
    report.faults = faults;
    report
}

struct Verifier<'v, 't, 'a, 'r> {
    cfi: &'v [cfi::Section<'a>],
    /// `None`: the caller does not know any.
    reasons: Option<Reasons<'r, 'a>>,
    cursor: Cursor<'v, 't>,
    arch: Arch,
    limit: usize,
    padding: u64,
    /// All but the differences.
    report: Report,
    differences: Limited<Difference>,
    /// Place of the last function that was counted as extra.
    last_extra: Option<usize>,
    /// Of those in several pieces, all that were.
    extra_in_pieces: HashSet<usize>,
}

/// PCs of one function.
#[derive(Clone, Copy, Default)]
struct Tally {
    equal: u64,
    different: u64,
    missing: u64,
}

mod tails;

impl<'v, 't> Verifier<'v, 't, '_, '_> {
    fn function(
        &mut self,
        function: &Function,
        tails: &mut Tails<'v, 't, impl Iterator<Item = Range<u64>>>,
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
        let report = &mut self.report;
        report.functions += 1;
        report.pcs += function.end.0 - function.start.0;
        report.pcs_equal += tally.equal;
        report.pcs_different += tally.different;
        report.pcs_missing += tally.missing;
        report.pcs_unjudged += function.end.0 - judged;
        report.pcs_unjudged_in_table += in_table;
        match result {
            _ if tally.different != 0 => report.different += 1,
            Err(error) => {
                report.unjudged_in_table += u64::from(in_table != 0);
                self.not_evaluated(Some(function.start), error);
            }
            Ok(()) if tally.missing != 0 => self.missing(function),
            Ok(()) => report.equal += 1,
        }
    }

    /// Compares some PCs for which the CFI gives one answer.
    fn compare(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        flags: Flags,
        tally: &mut Tally,
    ) {
        let Self { cursor, arch, differences, .. } = self;
        let mut pc = range.start;
        while pc < range.end {
            let segment = cursor.seek(pc);
            let end = segment.end.min(range.end);
            let period = match answer {
                Answer::Plt { .. } => lcm(16, segment.period()),
                _ => segment.period(),
            };
            let until = |pc| segment.until(pc).min(answer.until(pc));
            each_piece(pc..end, period, until, |range, recurrence| {
                let pcs = (range.end - range.start) * recurrence.times;
                let in_stub = matches!(answer, Answer::Plt { .. }).then(|| answer.at(range.start));
                let (cfi, table) = (in_stub.as_ref().unwrap_or(answer), segment.at(range.start));
                match against_cfi(cfi, flags, table, *arch) {
                    Outcome::Equal => tally.equal += pcs,
                    Outcome::Missing => tally.missing += pcs,
                    Outcome::Different => {
                        tally.different += pcs;
                        differences.add(Difference {
                            arch: *arch,
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

    /// How many of some PCs, after all that were looked at, the table answers for.
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

    /// PCs for which there is no CFI.
    fn gap(&mut self, range: Range<u64>, tables: &Table<'_>) {
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
                if range.end - range.start <= self.padding && holds_both() {
                    self.report.pcs += pcs;
                    self.report.pcs_padding += pcs;
                } else if pcs != 0 {
                    self.report.pcs += pcs;
                    self.report.pcs_different += pcs;
                    self.report.pcs_extra += pcs;
                    let is_known = self.last_extra == Some(place)
                        || tables.is_in_pieces(place) && !self.extra_in_pieces.insert(place);
                    self.last_extra = Some(place);
                    self.report.extra += u64::from(!is_known);
                    self.differences.add(Difference {
                        arch: self.arch,
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

    fn missing(&mut self, function: &Function) {
        self.report.missing += 1;
        let missing = self.cfi.get(function.section).map(|&section| MissingFunction {
            section,
            fde: function.fde,
            start: function.start,
        });
        let unsupported = self.reasons.as_mut().zip(missing).and_then(|(reason, missing)| reason(&missing));
        self.report.unexplained += u64::from(unsupported.is_none());
        let is_known = self.reasons.is_some();
        let name = unsupported.map_or("not-in-the-table", |unsupported| unsupported.reason.name());
        self.add_unverified(name.to_owned(), || Unverified {
            function: Some(function.start),
            pc: unsupported.map(|unsupported| unsupported.pc()),
            why: match unsupported {
                Some(unsupported) => unsupported.reason.to_string(),
                None if is_known => "the function could be in the table and is not".to_owned(),
                None => "the function is not in the table".to_owned(),
            },
        });
    }

    /// A function that the CFI describes in several ways.
    fn disputed(&mut self, function: &Function) {
        let pcs = function.end.0 - function.start.0;
        let in_table = self.answered(function.start.0..function.end.0);
        self.report.functions += 1;
        self.report.pcs += pcs;
        self.report.pcs_unjudged += pcs;
        self.report.unjudged_in_table += u64::from(in_table != 0);
        self.report.pcs_unjudged_in_table += in_table;
        self.unjudged(Some(function.start), DISPUTED.to_owned());
    }

    fn not_evaluated(&mut self, function: Option<Address>, error: Unevaluated) {
        self.unjudged(function, error.to_string());
    }

    fn unjudged(&mut self, function: Option<Address>, why: String) {
        self.report.unjudged += 1;
        self.add_unverified(why.clone(), || Unverified { function, pc: None, why });
    }

    fn add_unverified(&mut self, reason: String, unverified: impl FnOnce() -> Unverified) {
        if self.report.unverified.len() < self.limit {
            self.report.unverified.push(unverified());
        }
        *self.report.reasons.entry(reason).or_default() += 1;
    }
}
