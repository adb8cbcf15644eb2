//! The report of `diff`, for both formats.

use std::collections::BTreeMap;
use std::io::Write as _;

use cfipack_format::widen::ToU64;
use cfipack_format::{Arch, Row, Saved};
use cfipack_roundtrip::{Diff, ListedDifference, Side, TableDifference};
use serde::Serialize;

use crate::io::input::Object;
use crate::io::output;
use crate::report::count::Counts;
use crate::report::difference;
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::row::{self, RowJson};
use crate::report::status::{self, Status};
use crate::report::symbol::Names;
use crate::report::without_lists::WithoutLists;

/// Prints the result of the comparison of `objects`.
///
/// `counted` is the word for the things that the tables describe. `faults` describes the tables' defects. The last
/// argument decides how symbols are printed, and whether the report is JSON.
pub fn report(
    objects: [&Object<'_>; 2],
    diff: &Diff,
    faults: &[Vec<String>; 2],
    (arch, counted): (Arch, &str),
    (symbols, json): (Names, bool),
) -> anyhow::Result<Status> {
    let [a, b] = objects;
    let places = Places::of_object(if a.file().is_ok() { a } else { b }).with_names(symbols);
    let written = if json {
        let differences = diff.differences.iter().map(|found| DifferenceJson::new(arch, found, &places));
        output::print_json(&DiffJson {
            schema: "cfipack/diff/1",
            a: a.name.plain(),
            b: b.name.plain(),
            diff: WithoutLists(diff),
            faults,
            differences: differences.collect(),
        })
    } else {
        print(objects, diff, faults, counted, &places)
    };
    status::judged(Status::differs_if(!diff.is_equal()), written)
}

fn print(
    objects: [&Object<'_>; 2],
    diff: &Diff,
    faults: &[Vec<String>; 2],
    counted: &str,
    places: &Places<'_, '_>,
) -> anyhow::Result<()> {
    let mut out = output::standard();
    print_diff(&mut out, diff, counted, places)?;
    print_faults(&mut out, objects, diff, faults)?;
    Ok(out.flush()?)
}

fn print_diff(
    out: &mut impl std::io::Write,
    diff: &Diff,
    counted: &str,
    places: &Places<'_, '_>,
) -> anyhow::Result<()> {
    let Diff { equal, different, only_a, only_b, .. } = diff;
    let malformed = Counts(&[("malformed", diff.malformed)]).to_string();
    writeln!(
        out,
        "{counted}: {equal} equal, {different} different, {only_a} only in A, {only_b} only in B{malformed}"
    )?;
    let Diff { pcs_equal, pcs_different, pcs_only_a, pcs_only_b, .. } = diff;
    writeln!(
        out,
        "pcs: {pcs_equal} equal, {pcs_different} different, {pcs_only_a} only in A, {pcs_only_b} only in B"
    )?;
    for difference in &diff.differences {
        let pcs = difference.start..difference.end;
        // If only one table has the function, the place is the function itself.
        let function = Some(difference.function).filter(|_| difference.only_in.is_none());
        let words = difference::words(places, pcs, function, &difference.words());
        if places.has_names() {
            writeln!(out, "{}: {words}", places.name(difference.start))?;
        } else {
            writeln!(out, "{words}")?;
        }
    }
    if diff.more_differences != 0 {
        writeln!(out, "and {} more", diff.more_differences)?;
    }
    Ok(())
}

fn print_faults(
    out: &mut impl std::io::Write,
    objects: [&Object<'_>; 2],
    diff: &Diff,
    faults: &[Vec<String>; 2],
) -> anyhow::Result<()> {
    for (object, faults) in objects.into_iter().zip(faults) {
        for fault in faults {
            writeln!(out, "{}: {fault}", object.name)?;
        }
    }
    let printed = faults.iter().flatten().count().to_u64();
    if printed != 0 && printed < diff.malformed {
        writeln!(out, "and {} more in the tables", diff.malformed - printed)?;
    }
    Ok(())
}

/// The report, as `cfipack/diff/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffJson<'r> {
    schema: &'static str,
    a: FileName,
    b: FileName,
    #[serde(flatten)]
    diff: WithoutLists<'r, Diff>,
    /// The defects of the tables of A, and of the tables of B.
    faults: &'r [Vec<String>; 2],
    differences: Vec<DifferenceJson>,
}

/// A difference with the rows of both tables for its PCs. `only_in` is null unless one table lacks the whole function.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DifferenceJson {
    #[serde(flatten)]
    difference: ListedDifference<String>,
    only_in: Option<Side>,
    rows_a: Vec<TableRow>,
    rows_b: Vec<TableRow>,
}

/// A row in the form that `lookup` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TableRow {
    #[serde(flatten)]
    row: RowJson,
    /// For compact unwind: the saved registers, each with its distance from the CFA in bytes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    saved: BTreeMap<String, i32>,
}

impl DifferenceJson {
    fn new(arch: Arch, difference: &TableDifference, places: &Places<'_, '_>) -> Self {
        let row = |(row, saved): &(Row, Saved)| TableRow {
            row: RowJson::new(arch, row),
            saved: row::saved(arch, saved),
        };
        let [rows_a, rows_b] = difference.rows.each_ref().map(|rows| rows.iter().map(row).collect());
        let only_in = difference.only_in;
        Self { difference: difference::listed(places, difference.clone().into()), only_in, rows_a, rows_b }
    }
}
