//! `diff`: compares two tables by meaning.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::Placement;
use cfipack_format::Address;
use cfipack_roundtrip::{Fault, Options, Table, diff};

use crate::absent::{self, SFRAME_TABLE};
use crate::io::input::{self, Input};
use crate::report::comparison;
use crate::report::fault::TableNames;
use crate::report::status::Status;
use crate::report::symbol::Names;
use crate::same_code;
use crate::verbs::unwind_info;

/// Compares two tables by meaning
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Compares the rows of both tables at every PC, however each is divided into functions.
Relocatable objects are compared if their sections of code have the same names, sizes and order.
Exit status 1: the tables differ at a PC.

Examples:
  cfi2sframe diff a.out.old a.out
  cfi2sframe diff small gnu                  two bare sections, as --section writes them
  cfi2sframe diff a.out table --address-b 0x2f0")]
pub struct Arguments {
    /// Object or linked file with a table, or a bare .sframe or __unwind_info section
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Object, linked file or bare section to compare with A
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Address of a bare .sframe section in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address: Option<Address>,
    /// Address of B, if it is not that of A
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address_b: Option<Address>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    slice: input::Slice,
}

/// Compares A with B.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let [a, b] = [&arguments.a, &arguments.b].map(|path| Input::open(path, &arguments.slice));
    let [a, b] = [a?, b?];
    let [a, b] = [a.object(Placement::Apart)?, b.object(Placement::Apart)?];
    let Arguments { address, address_b, .. } = *arguments;
    if address_b.is_some() && !b.is_bare_sframe() {
        bail!("{}: --address-b: B is not a bare .sframe section", b.name);
    }
    if address_b.is_some() || !b.is_bare_sframe() {
        a.check_address(address).with_context(|| a.name.to_string())?;
    }
    if a.is_compact() || b.is_compact() {
        return unwind_info::diff::compare(&a, &b, (arguments.names, arguments.json));
    }
    let addresses = [address, address_b.or(address)].map(Option::unwrap_or_default);
    let mut sections = Vec::new();
    for (object, address) in [&a, &b].into_iter().zip(addresses) {
        sections.push(object.sframe_sections(address).with_context(|| object.name.to_string())?);
    }
    let mut tables = Vec::new();
    for (object, sections) in [&a, &b].into_iter().zip(&sections) {
        let found = object.tables(sections).with_context(|| object.name.to_string())?;
        if found.is_empty() {
            return Err(absent::from_object(object, SFRAME_TABLE)).with_context(|| object.name.to_string());
        }
        tables.push(found);
    }
    same_code::require([&a, &b], &tables)?;
    let [of_a, of_b] = [0, 1].map(|side: usize| TableNames::of(&tables[side], &sections[side]));
    let arch = tables[0][0].arch();
    of_a.require_arch(&tables[0], arch, &"the first table").with_context(|| a.name.to_string())?;
    of_b.require_arch(&tables[1], arch, &a.name).with_context(|| b.name.to_string())?;
    let diff = diff(&Table::new(&tables[0]), &Table::new(&tables[1]), &Options::default());
    let words =
        |names: &TableNames, faults: &[Fault]| faults.iter().map(|fault| names.words(fault)).collect();
    let faults = [words(&of_a, &diff.faults[0]), words(&of_b, &diff.faults[1])];
    comparison::report([&a, &b], &diff, &faults, "functions", (arguments.names, arguments.json))
}
