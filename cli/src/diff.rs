//! `diff`: two tables by meaning.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::Layout;
use cfipack_format::Address;
use cfipack_roundtrip::{Diff, Options, Table, diff};
use serde::Serialize;

use crate::count::Counts;
use crate::input::{self, Input, Object};
use crate::output;
use crate::place::Places;
use crate::status::Status;
use crate::unwind_info;

/// Compares two tables by meaning
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Compares what each answers at every PC, however it is cut into functions.
Exit status 1: they answer differently for some PC.

Examples:
  cfi2sframe diff a.out.old a.out
  cfi2sframe diff small gnu                  two bare sections, as --section writes them
  cfi2sframe diff a.out table --address-b 0x2f0")]
pub struct Arguments {
    /// An object or linked file with a table, or a bare .sframe or __unwind_info section
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The same
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Where a bare .sframe section lies in memory
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address, default_value = "0")]
    address: Address,
    /// Where B lies, if not at the same place
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address_b: Option<Address>,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    slice: input::Slice,
}

/// Compares A with B.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let [a, b] = [&arguments.a, &arguments.b].map(|path| Input::open(path, &arguments.slice));
    let [a, b] = [a?, b?];
    let [a, b] = [a.object(Layout::Apart)?, b.object(Layout::Apart)?];
    if a.is_compact() || b.is_compact() {
        return unwind_info::diff::compare(&a, &b, arguments.json);
    }
    let addresses = [arguments.address, arguments.address_b.unwrap_or(arguments.address)];
    let mut sections = Vec::new();
    for (object, address) in [&a, &b].into_iter().zip(addresses) {
        sections.push(object.sframe_sections(address).with_context(|| object.name.to_string())?);
    }
    let mut tables = Vec::new();
    for (object, sections) in [&a, &b].into_iter().zip(&sections) {
        let found: anyhow::Result<Vec<_>> = sections.iter().map(input::tables).collect();
        let found = found.with_context(|| object.name.to_string())?.concat();
        if found.is_empty() {
            bail!("{}: there is no .sframe table in it", object.name);
        }
        tables.push(found);
    }
    let diff = diff(&Table::new(&tables[0]), &Table::new(&tables[1]), &Options::default());
    report([&a, &b], &diff, "functions", arguments.json)
}

/// Says what comparing `objects` found. `counted` is what the tables' functions are called there.
pub fn report(objects: [&Object<'_>; 2], diff: &Diff, counted: &str, json: bool) -> anyhow::Result<Status> {
    let mut out = output::standard();
    if json {
        output::json(&mut out, &DiffJson::new(objects.map(|object| object.name.to_string()), diff))?;
    } else {
        let file = objects.iter().find_map(|object| object.file().ok());
        print(&mut out, diff, counted, file.map(Places::new).as_ref())?;
    }
    out.flush()?;
    Ok(Status::differs_if(!diff.is_equal()))
}

fn print(
    out: &mut impl std::io::Write,
    diff: &Diff,
    counted: &str,
    places: Option<&Places<'_, '_>>,
) -> anyhow::Result<()> {
    let Diff { equal, different, only_a, only_b, .. } = diff;
    let unreadable = Counts(&[("that cannot be read", diff.malformed)]).to_string();
    writeln!(
        out,
        "{counted}: {equal} equal, {different} different, {only_a} only in A, {only_b} only in B{unreadable}"
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

/// The comparison.
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

#[derive(Serialize)]
struct DifferenceJson {
    start: String,
    end: String,
    function: String,
    words: String,
}

impl DiffJson {
    fn new([a, b]: [String; 2], diff: &Diff) -> Self {
        let differences = diff.differences.iter().map(|difference| DifferenceJson {
            start: difference.start.to_string(),
            end: difference.end.to_string(),
            function: difference.function.to_string(),
            words: difference.to_string(),
        });
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
            differences: differences.collect(),
        }
    }
}
