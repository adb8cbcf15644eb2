//! Compares `.sframe` tables with the CFI of their file. `verify`, `stats`, `explain` and conversions use it.

use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe;
use cfipack_format::Unsupported;
use cfipack_format::pool::Threads;
use cfipack_lint::coverage;
use cfipack_lint::synthesized::range_of;
use cfipack_roundtrip::{MissingFunction, Options, Report, Table, verify_with_reasons_on};

use crate::kept::proven;
use crate::missing::AnyTableReasons;

/// Returns whether a verification passes: exit status 0. `strict` demands that the table omits nothing.
///
/// A table passes if its rows were compared and are right, and if a reason is known for each function that it omits. An
/// FDE that cannot be read may describe any code, so a file with such an FDE does not pass.
pub fn passes(report: &Report, strict: bool) -> bool {
    let is_complete = report.missing == 0 && report.unjudged == 0 && report.pcs_hidden == 0;
    let is_readable = report.unreadable == 0;
    report.is_proven() && report.pcs_compared() != 0 && is_readable && (is_complete || !strict)
}

/// Verifies tables of any origin against the CFI of their file, on `threads` threads.
///
/// # Errors
/// The same errors as [`against`].
pub fn against_any(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    tables: &[sframe::Section<'_>],
    options: &Options,
    threads: usize,
) -> anyhow::Result<Report> {
    let mut reasons = AnyTableReasons::new(tables);
    against(file, sections, tables, options, threads, |missing| reasons.reason(missing))
}

/// Verifies tables against the CFI of a file, on `threads` threads. `reason` returns why a function is missing.
///
/// Functions of a table that no CFI covers are judged by the file's code. The code is read only if there are such
/// functions. Then the tables are verified again, with the functions that the code confirms.
///
/// # Errors
/// The code of a function without CFI cannot be read.
pub fn against<'s>(
    file: &File<'_>,
    sections: &'s [CallFrameSection<'_>],
    tables: &[sframe::Section<'_>],
    options: &Options,
    threads: usize,
    mut reason: impl FnMut(&MissingFunction<'s>) -> Option<Unsupported>,
) -> anyhow::Result<Report> {
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    let mut verify =
        |table: &Table<'_>| verify_with_reasons_on(&Threads(threads), &cfi, table, options, &mut reason);
    let table = Table::new(tables);
    let report = verify(&table);
    if report.extra == 0 {
        return Ok(report);
    }
    let judged = proven(file, sections, tables, true)?.iter().map(range_of).collect();
    let judged = coverage::merged(judged).into_iter().map(|range| range.start.0..range.end.0);
    Ok(verify(&table.with_judged(judged.collect())))
}
