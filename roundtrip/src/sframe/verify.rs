//! Verifies tables against the CFI of their file.
//!
//! - `parts`: divides the functions among the threads of a pool.
//! - `part`: judges the functions of one part. `agree` is its fast path, and `decoded` the rows for that path.
//! - `equal_functions`: skips functions with the same bytes as a function that was judged.
//! - `found`, `without_verdict`: the findings, and the functions without a verdict.
//! - `input`: the input, and the buffers of a thread.

use cfipack_format::widen::ToU64;
use cfipack_format::{Arch, Unsupported, cfi};

use super::missing::{MissingFunction, Reasons};
use super::report::Report;
use super::table::Table;
use crate::cfi::Functions;
use crate::options::Options;
use cfipack_format::pool::{Pool, Serial};
use found::Found;
use input::Input;
use parts::judge;
use without_verdict::{Cause, WithoutVerdict, describe};

mod agree;
mod decoded;
mod equal_functions;
mod found;
mod input;
mod part;
mod parts;
mod without_verdict;

/// Compares tables with the CFI of their file, row by row, at every PC of every function.
///
/// The comparison goes both ways: a PC that only the table answers for is a difference. gimli evaluates the CFI. CFI
/// and tables are walked side by side and no row is stored, so time is in proportion to the rows and memory to the
/// functions. A function is not evaluated again if its CFI and its rows have the same bytes as a function that was
/// found equal.
///
/// Functions that the table lacks are counted under `not-in-the-table`. Use [`verify_with_reasons`] to give the
/// reasons.
pub fn verify(cfi: &[cfi::Section<'_>], tables: &Table<'_>, options: &Options) -> Report {
    verify_on(&Serial, cfi, tables, options)
}

/// Does the same as [`verify`], with the threads of a pool. The report does not depend on the number of threads.
pub fn verify_on(pool: &dyn Pool, cfi: &[cfi::Section<'_>], tables: &Table<'_>, options: &Options) -> Report {
    run(pool, cfi, tables, options, None)
}

/// Does the same as [`verify`], and asks `reason` why the table lacks a function.
///
/// `reason` returns why the table's producer omitted the function, or why no table of that version can represent it. It
/// returns `None` for a function that could be in the table: [`Report::unexplained`] counts these functions. It is
/// called once for each function of [`Report::missing`], in ascending order of address. Its answers change the words of
/// the report and no verdict.
pub fn verify_with_reasons<'a>(
    cfi: &[cfi::Section<'a>],
    tables: &Table<'_>,
    options: &Options,
    reason: impl FnMut(&MissingFunction<'a>) -> Option<Unsupported>,
) -> Report {
    verify_with_reasons_on(&Serial, cfi, tables, options, reason)
}

/// Does the same as [`verify_with_reasons`], with the threads of a pool. The report does not depend on the number of
/// threads. `reason` is called on the caller's thread after all functions have been judged.
pub fn verify_with_reasons_on<'a>(
    pool: &dyn Pool,
    cfi: &[cfi::Section<'a>],
    tables: &Table<'_>,
    options: &Options,
    mut reason: impl FnMut(&MissingFunction<'a>) -> Option<Unsupported>,
) -> Report {
    run(pool, cfi, tables, options, Some(&mut reason))
}

fn run<'a>(
    pool: &dyn Pool,
    cfi: &[cfi::Section<'a>],
    tables: &Table<'_>,
    options: &Options,
    reasons: Option<Reasons<'_, 'a>>,
) -> Report {
    let functions = Functions::find(cfi);
    let arch = match cfi.first() {
        Some(section) => section.arch,
        None => tables.arch().unwrap_or(Arch::Amd64),
    };
    let input = Input {
        functions: &functions,
        all_tails: functions.all_tails(),
        tables,
        arch,
        // A table that does not represent signal frames cannot be wrong about them.
        signal: tables.sections.is_empty()
            || tables.sections.iter().any(|table| table.version().has_signal_frames()),
        // A function that cannot be read may lie in any gap.
        padding: if functions.unreadable().is_empty() { options.padding } else { 0 },
        limit: options.limit,
    };
    let mut found = Found::new(options.limit);
    for unreadable in functions.unreadable() {
        found.counts.functions += 1;
        found.counts.unreadable += 1;
        let cause = Cause::Unreadable(*unreadable);
        found.without_verdict.push(WithoutVerdict { function: None, cause });
    }
    for part in judge(&input, pool) {
        found.append(part);
    }
    let (without_verdict, mut report) = found.report();
    report.functions += functions.empty();
    report.equal += functions.empty();
    report.duplicates = functions.duplicates();
    report.faults = tables.faults_for(arch);
    report.malformed = report.faults.len().to_u64();
    report.faults.truncate(options.limit);
    describe(&without_verdict, cfi, reasons, options.limit, &mut report);
    report
}
