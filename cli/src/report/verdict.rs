//! The report of `verify`, as text and as JSON.

use std::io::Write;

use cfipack_format::widen::ToU64;
use cfipack_lint::Lint;
use cfipack_roundtrip::{ListedDifference, Report, Unverified};
use serde::Serialize;

use crate::io::debug_file::DebugFileJson;
use crate::io::found::HiddenTables;
use crate::report::count::{Counts, Number};
use crate::report::difference;
use crate::report::displaced::Displaced;
use crate::report::escaped::FileName;
use crate::report::excluded::Excluded;
use crate::report::fault::TableNames;
use crate::report::kernel::Fallback;
use crate::report::place::Places;
use crate::report::reasons;
use crate::report::unverified;
use crate::report::without_lists::WithoutLists;

/// What reports call FDEs that are not counted as functions.
pub const DUPLICATES: &str = "duplicates with the start of another";

/// The line of a report that qualifies its verdict about functions without CFI.
pub const JUDGED_BY_CODE: &str =
    "judged by code: functions without CFI, by the engine that makes such rows; no independent proof";

/// Writes the report as text, after a line with its subject.
pub fn print(
    out: &mut impl Write,
    report: &Report,
    names: &TableNames,
    places: &Places<'_, '_>,
) -> anyhow::Result<()> {
    let Report { equal, different, missing, unjudged, .. } = report;
    write!(out, "  functions: {equal} equal, {different} different, {missing} missing")?;
    let rest = [
        ("unjudged", *unjudged),
        ("of them in the table", report.unjudged_in_table),
        ("of them unreadable", report.unreadable),
        ("only in the table", report.extra),
        (DUPLICATES, report.duplicates),
    ];
    writeln!(out, "{}", Counts(&rest))?;
    let Report { pcs, pcs_equal, pcs_different, pcs_missing, .. } = report;
    write!(out, "  pcs: {pcs}: {pcs_equal} equal, {pcs_different} different, {pcs_missing} missing")?;
    let rest = [
        ("unjudged", report.pcs_unjudged),
        ("of them in the table", report.pcs_unjudged_in_table),
        ("padding between functions", report.pcs_padding),
        ("judged by code", report.pcs_judged),
        ("hidden by functions inside others", report.pcs_hidden),
    ];
    writeln!(out, "{}", Counts(&rest))?;
    if report.pcs_judged != 0 {
        writeln!(out, "  {JUDGED_BY_CODE}")?;
    }
    if report.pcs_compared() == 0 {
        writeln!(out, "  nothing was compared: {}", nothing(report))?;
    }
    reasons::print(out, "missing or unjudged", &report.reasons)?;
    for fault in &report.faults {
        writeln!(out, "  {}", names.words(fault))?;
    }
    let more_faults = report.malformed - report.faults.len().to_u64();
    if more_faults != 0 {
        writeln!(out, "  and {more_faults} more in the table")?;
    }
    for difference in &report.differences {
        let words = difference::words(
            places,
            difference.start..difference.end,
            difference.function,
            &difference.words(),
        );
        writeln!(out, "  {}: {words}", places.name(difference.start))?;
    }
    if report.more_differences != 0 {
        writeln!(out, "  and {} more", report.more_differences)?;
    }
    Ok(())
}

/// Returns the heading of a report about a conversion.
pub fn heading(report: &Report) -> &'static str {
    if report.pcs_compared() == 0 {
        "not verified against the CFI"
    } else if report.is_proven() {
        "verified against the CFI, as gimli evaluates it"
    } else {
        "not what the CFI describes, as gimli evaluates it"
    }
}

/// Returns the reason why no answer of a table was compared.
fn nothing(report: &Report) -> &'static str {
    if report.functions == 0 {
        "the CFI has no function"
    } else if report.pcs_missing != 0 {
        "the table has none of the functions"
    } else if report.pcs_unjudged != 0 || report.unjudged != 0 {
        "no function of the CFI can be judged"
    } else {
        "the functions of the CFI have no code"
    }
}

/// The report of [`print()`], as `cfipack/verify/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SframeReport"))]
pub struct VerifyJson<'r> {
    pub schema: &'static str,
    pub file: FileName,
    #[serde(flatten)]
    pub report: ReportJson<'r>,
    pub violations: Vec<String>,
    pub more_violations: u64,
    pub fallback: Option<Fallback>,
    pub excluded: &'r Excluded,
    /// Present if readers do not find all tables of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_tables: Option<HiddenTables>,
    /// The separate debug file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_file: Option<DebugFileJson>,
    /// The comparison of the CFI with the code. Null without `--lint`.
    pub cfi_against_code: Option<AgainstCode>,
    /// Present if `--address` is wrong for a bare section, and another address fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displaced: Option<&'r Displaced>,
}

/// The number of functions whose CFI was compared with their code.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgainstCode {
    /// The number of functions of which every instruction was compared.
    pub decided: u64,
    /// The number of functions of which some instructions could not be compared.
    pub undecided: u64,
    /// The number of functions whose CFI disagrees with their code.
    pub wrong: u64,
}

impl AgainstCode {
    /// Counts the results of a comparison.
    pub fn new(lint: &Lint) -> Self {
        Self { decided: lint.decided, undecided: lint.undecided.values().sum(), wrong: lint.wrong() }
    }
}

/// Returns the line about the CFI itself. If the CFI is wrong, a correct table is wrong too.
pub fn against_code(code: Option<AgainstCode>) -> String {
    match code {
        None => "CFI against code: not checked (--lint)".to_string(),
        Some(AgainstCode { decided, undecided, wrong }) => {
            let decided = Number(decided, "function");
            format!("CFI against code: {decided} decided, {undecided} not; {wrong} with wrong CFI")
        }
    }
}

/// The result of comparing a table with CFI: counts of functions and PCs, and the first differences.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportJson<'r> {
    #[serde(flatten)]
    report: WithoutLists<'r, Report>,
    faults: Vec<String>,
    differences: Vec<ListedDifference<String>>,
    unverified: Vec<Unverified<String>>,
}

impl<'r> ReportJson<'r> {
    /// Creates the report, with the names that the file has for places.
    pub fn new(report: &'r Report, names: &TableNames, places: &Places<'_, '_>) -> Self {
        let differences = report.differences.iter();
        let unverified = report.unverified.iter();
        Self {
            report: WithoutLists(report),
            faults: report.faults.iter().map(|fault| names.words(fault)).collect(),
            differences: differences.map(|&found| difference::listed(places, found.into())).collect(),
            unverified: unverified.map(|function| unverified::listed(places, function)).collect(),
        }
    }
}
