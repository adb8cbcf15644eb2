//! The report of `verify`, as text and as JSON.

use std::collections::BTreeMap;
use std::io::Write;

use cfipack_roundtrip::{KernelViolation, KernelViolations, Report};
use serde::Serialize;

use crate::report::count::Counts;
use crate::report::difference::{self, DifferenceJson};
use crate::report::excluded::Excluded;
use crate::report::fault::TableNames;
use crate::report::place::Places;

/// The name in reports of FDEs that are not counted as functions.
pub const DUPLICATES: &str = "duplicates with the start of another";

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
        ("hidden by functions inside others", report.pcs_hidden),
    ];
    writeln!(out, "{}", Counts(&rest))?;
    let reasons = report.reasons_by_count();
    if !reasons.is_empty() {
        writeln!(out, "  missing or unjudged: {}", Counts(&reasons).list())?;
    }
    for fault in &report.faults {
        writeln!(out, "  {}", names.words(fault))?;
    }
    let more_faults = report.malformed - report.faults.len() as u64;
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

/// The report of [`print()`], as `cfipack/verify/1`.
#[derive(Serialize)]
pub struct VerifyJson<'r> {
    schema: &'static str,
    file: &'r str,
    #[serde(flatten)]
    report: ReportJson<'r>,
    violations: Vec<String>,
    more_violations: u64,
    excluded: &'r Excluded,
}

impl<'r> VerifyJson<'r> {
    /// The report in JSON, with the broken rules of a profile.
    pub fn new(
        file: &'r str,
        report: &'r Report,
        violations: &[KernelViolations],
        excluded: &'r Excluded,
        names: &TableNames,
        places: &Places<'_, '_>,
    ) -> Self {
        let words = |violation: &KernelViolation| violation.words(|address| places.location(address));
        let more_violations = violations.iter().map(|table| table.more).sum();
        let violations = violations.iter().flat_map(|table| &table.first).map(words).collect();
        let report = ReportJson::new(report, names, places);
        Self { schema: "cfipack/verify/1", file, report, violations, more_violations, excluded }
    }
}

/// A report: counts of functions and PCs, and the first differences.
#[derive(Serialize)]
pub struct ReportJson<'r> {
    functions: u64,
    equal: u64,
    different: u64,
    missing: u64,
    unjudged: u64,
    unjudged_in_table: u64,
    unreadable: u64,
    duplicates: u64,
    extra: u64,
    malformed: u64,
    faults: Vec<String>,
    pcs: u64,
    pcs_equal: u64,
    pcs_different: u64,
    pcs_missing: u64,
    pcs_unjudged: u64,
    pcs_unjudged_in_table: u64,
    pcs_extra: u64,
    pcs_padding: u64,
    pcs_hidden: u64,
    reasons: &'r BTreeMap<String, u64>,
    differences: Vec<DifferenceJson>,
    more_differences: u64,
    unverified: Vec<UnverifiedJson<'r>>,
}

#[derive(Serialize)]
struct UnverifiedJson<'r> {
    function: Option<String>,
    pc: Option<String>,
    words: &'r str,
}

impl<'r> ReportJson<'r> {
    /// The report in JSON, about a file.
    pub fn new(report: &'r Report, names: &TableNames, places: &Places<'_, '_>) -> Self {
        let differences = report.differences.iter().map(|difference| {
            let pcs = difference.start..difference.end;
            DifferenceJson::at(places, pcs, difference.function, &difference.words())
        });
        let unverified = report.unverified.iter().map(|function| UnverifiedJson {
            function: function.function.map(|start| places.location(start)),
            pc: function.pc.map(|pc| places.location(pc)),
            words: &function.words,
        });
        Self {
            functions: report.functions,
            equal: report.equal,
            different: report.different,
            missing: report.missing,
            unjudged: report.unjudged,
            unjudged_in_table: report.unjudged_in_table,
            unreadable: report.unreadable,
            duplicates: report.duplicates,
            extra: report.extra,
            malformed: report.malformed,
            faults: report.faults.iter().map(|fault| names.words(fault)).collect(),
            pcs: report.pcs,
            pcs_equal: report.pcs_equal,
            pcs_different: report.pcs_different,
            pcs_missing: report.pcs_missing,
            pcs_unjudged: report.pcs_unjudged,
            pcs_unjudged_in_table: report.pcs_unjudged_in_table,
            pcs_extra: report.pcs_extra,
            pcs_padding: report.pcs_padding,
            pcs_hidden: report.pcs_hidden,
            reasons: &report.reasons,
            differences: differences.collect(),
            more_differences: report.more_differences,
            unverified: unverified.collect(),
        }
    }
}
