//! `diff` of two tables of compact unwind.

use std::io::Write as _;

use anyhow::{Context as _, bail};
use cfipack_roundtrip::Options;
use cfipack_roundtrip::unwind_info::{Diff, diff};
use serde::Serialize;

use super::source::Source;
use super::verify::DifferenceJson;
use crate::count::Counts;
use crate::input::Object;
use crate::output;
use crate::place::Places;
use crate::status::Status;

/// Compares A with B. A bare section is for the same image as the other table.
pub fn compare(a: &Object<'_>, b: &Object<'_>, json: bool) -> anyhow::Result<Status> {
    if !a.is_compact() || !b.is_compact() {
        bail!("{} and {} have tables of two formats", a.name, b.name);
    }
    let sources = [
        Source::with_table(a).with_context(|| a.name.to_string())?,
        Source::with_table(b).with_context(|| b.name.to_string())?,
    ];
    let Some(known) = sources.iter().find(|source| source.file.is_some()) else {
        bail!("two bare __unwind_info sections, and neither says for which architecture it is");
    };
    let mut tables = Vec::new();
    for (source, name) in sources.iter().zip([&a.name, &b.name]) {
        let owner = if source.file.is_some() { source } else { known };
        if source.file.is_some() && source.arch()? != known.arch()? {
            bail!("{} and {} are for different architectures", a.name, b.name);
        }
        let table = source.entries(known.arch()?, owner.base(), owner.code());
        tables.push(table.with_context(|| name.to_string())?);
    }
    let diff = diff(&tables[0], &tables[1], &Options::default());
    let mut out = output::standard();
    if json {
        output::json(&mut out, &DiffJson::new(a.name.to_string(), b.name.to_string(), &diff))?;
    } else {
        print(&mut out, &diff, known.file.map(Places::new).as_ref())?;
    }
    out.flush()?;
    Ok(Status::differs_if(!diff.is_equal()))
}

fn print(out: &mut impl std::io::Write, diff: &Diff, places: Option<&Places<'_, '_>>) -> anyhow::Result<()> {
    let Diff { equal, different, only_a, only_b, .. } = diff;
    let unreadable = Counts(&[("that cannot be read", diff.malformed)]).to_string();
    writeln!(
        out,
        "entries: {equal} equal, {different} different, {only_a} only in A, {only_b} only in B{unreadable}"
    )?;
    let Diff { pcs_equal, pcs_different, pcs_only_a, pcs_only_b, .. } = diff;
    writeln!(
        out,
        "pcs: {pcs_equal} equal, {pcs_different} different, {pcs_only_a} only in A, {pcs_only_b} only in B"
    )?;
    for difference in &diff.differences {
        match places {
            Some(places) => writeln!(out, "{}: {difference}", places.name(difference.start))?,
            None => writeln!(out, "{difference}")?,
        }
    }
    Ok(())
}

/// The comparison, as `cfipack/diff/1`; functions are entries here.
#[derive(Serialize)]
struct DiffJson {
    schema: &'static str,
    a: String,
    b: String,
    equal: u64,
    different: u64,
    only_a: u64,
    only_b: u64,
    malformed: u64,
    pcs_equal: u64,
    pcs_different: u64,
    pcs_only_a: u64,
    pcs_only_b: u64,
    differences: Vec<DifferenceJson>,
}

impl DiffJson {
    fn new(a: String, b: String, diff: &Diff) -> Self {
        Self {
            schema: "cfipack/diff/1",
            a,
            b,
            equal: diff.equal,
            different: diff.different,
            only_a: diff.only_a,
            only_b: diff.only_b,
            malformed: diff.malformed,
            pcs_equal: diff.pcs_equal,
            pcs_different: diff.pcs_different,
            pcs_only_a: diff.pcs_only_a,
            pcs_only_b: diff.pcs_only_b,
            differences: diff.differences.iter().map(DifferenceJson::new).collect(),
        }
    }
}
