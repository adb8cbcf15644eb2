//! `diff`: compares two tables by meaning.

mod same_code;
mod sframe;
mod unwind_info;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::{File, Placement};
use cfipack_format::Address;

use crate::io::input::{self, Input, Object};
use crate::io::output;
use crate::io::values;
use crate::report::status::Status;
use crate::report::symbol::Names;

/// Compares two tables by meaning
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Compares the rows of both tables at every PC, however each is divided into functions.
Relocatable objects are compared if their sections of code have the same names, sizes and order.

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
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    pub address: Option<Address>,
    /// Address of B, if it is not that of A
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    pub address_b: Option<Address>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub names: Names,
    #[command(flatten)]
    slice: input::Slice,
}

/// Compares A with B.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let [a, b] = [&arguments.a, &arguments.b].map(|path| Input::open(path, &arguments.slice));
    let [a, b] = [a?, b?];
    let [all_a, all_b] = [a.slices(Placement::Apart)?, b.slices(Placement::Apart)?];
    let mut status = Status::Done;
    for [a, b] in pairs(&all_a, &all_b)? {
        if all_a.len() > 1 && all_b.len() > 1 && !arguments.json {
            writeln!(output::standard(), "{} and {}:", a.name, b.name)?;
        }
        status = status.max(compare(a, b, arguments)?);
    }
    Ok(status)
}

/// Returns the objects to compare: two files, or the slices of fat files with the same architecture.
fn pairs<'o, 'a>(
    all_a: &'o [Object<'a>],
    all_b: &'o [Object<'a>],
) -> anyhow::Result<Vec<[&'o Object<'a>; 2]>> {
    if let ([a], [b]) = (all_a, all_b) {
        return Ok(vec![[a, b]]);
    }
    let (few, many) = if all_a.len() <= all_b.len() { (all_a, all_b) } else { (all_b, all_a) };
    let name = &few[0].name;
    if few.len() > 1 && few.len() != many.len() {
        bail!("{name} and {}: the files have other architectures, choose one with --arch", many[0].name);
    }
    let mut pairs = Vec::new();
    for object in few {
        let mut like = many.iter().filter(|other| is_like(object, other));
        let (Some(other), None) = (like.next(), like.next()) else {
            bail!("{}: has no counterpart in the other file, choose one with --arch", object.name);
        };
        pairs.push(if all_a.len() <= all_b.len() { [object, other] } else { [other, object] });
    }
    Ok(pairs)
}

/// Returns whether two objects are slices with the same name, or otherwise have the same architecture.
fn is_like(object: &Object<'_>, other: &Object<'_>) -> bool {
    match (&object.name.member, &other.name.member) {
        (Some(name), Some(other)) => name == other,
        _ => object.file().ok().map(File::arch) == other.file().ok().map(File::arch),
    }
}

fn compare(a: &Object<'_>, b: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Status> {
    let Arguments { address, address_b, .. } = *arguments;
    if address_b.is_some() && !b.is_bare_sframe() {
        bail!("{}: --address-b: B is not a bare .sframe section", b.name);
    }
    if address_b.is_some() || !b.is_bare_sframe() {
        a.check_address(address).with_context(|| a.name.to_string())?;
    }
    if a.is_compact() != b.is_compact() {
        bail!("{} and {}: their tables have different formats", a.name, b.name);
    }
    if a.is_compact() {
        return unwind_info::compare(a, b, arguments);
    }
    sframe::compare(a, b, arguments)
}
