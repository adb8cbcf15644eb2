//! `verify`: compares a table with the CFI that it represents.

mod sframe;
pub mod unwind_info;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::Placement;
use cfipack_format::Address;

use crate::io::debug_file::DebugFileOption;
use crate::io::each;
use crate::io::input::{self, Demand, Input, Parts};
use crate::io::values;
use crate::report::status::Status;
use crate::report::symbol::Names;

/// Verifies a table against the CFI of its file
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Compares the rows of the table and of the CFI at every PC of every function, in both
directions. gimli evaluates the CFI, not the code that converts it.
For Mach-O files, compares compact entries with the CFI of functions that have both: they
must be equal in the body and at every call; and checks the rules that the table's readers
rely on.
Functions that the table omits are named with the reason, and so are functions that gimli cannot
evaluate.

Examples:
  cfi2sframe verify a.out                           the table in a.out against its .eh_frame
  cfi2sframe verify libfoo.so --sframe table        a table that --section wrote
  cfi2sframe verify --json a.out | jq .reasons
  cfi2sframe verify libfoo.dylib                    the __unwind_info in libfoo.dylib")]
pub struct Arguments {
    /// Objects, linked files or archives with CFI
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the table from this file or bare section
    #[arg(long, value_name = "F")]
    pub sframe: Option<PathBuf>,
    /// Mach-O: read the table from this file or bare section
    #[arg(long, value_name = "F", conflicts_with = "sframe")]
    pub unwind_info: Option<PathBuf>,
    /// Address of a bare .sframe section in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    pub address: Option<Address>,
    /// Also check the rules of a strict reader: kernel is version 5 (April 2026) of the series for Linux on
    /// arm64, which sorts the tables of modules itself
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,
    /// Largest gap between merged functions that a table may cover, in bytes
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = values::number_in(0..=u64::MAX))]
    pub padding: u64,
    /// Also compare the CFI with the code, as the verb lint does: a finding is exit status 1
    #[arg(long)]
    pub lint: bool,
    /// Exit status 1 if the table omits a function, or if a search cannot find one
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object for each file, one per line
    #[arg(long)]
    pub json: bool,
    /// Number of threads; the report does not depend on it
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number_in(1..=256_u16))]
    pub threads: u16,
    #[command(flatten)]
    pub names: Names,
    #[command(flatten)]
    debug_file: DebugFileOption,
    #[command(flatten)]
    slice: input::Slice,
}

/// A reader that accepts less than the format allows.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub enum Profile {
    // The reader of the series for arm64, version 5 (April 2026).
    Kernel,
}

/// Verifies every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let Arguments { files, slice, debug_file, .. } = arguments;
    debug_file.check(files)?;
    let table = arguments.sframe.as_deref().or(arguments.unwind_info.as_deref());
    let table = table.map(|path| Input::open(path, slice)).transpose()?;
    let table = table.as_ref().map(|input| input.object(Placement::Apart)).transpose()?;
    if let Some(table) = &table {
        let [file] = &files[..] else { bail!("{}: one table, but {} files", table.name, files.len()) };
        // This file must have a single object too.
        let input = Input::open(file, slice)?;
        let object = input.object(Placement::Apart)?;
        let checked = if table.is_compact() {
            unwind_info::check_for(table, arguments)
        } else {
            sframe::check_for(table, &object, arguments)
        };
        checked.with_context(|| table.name.to_string())?;
    }
    let parts = Parts::from((slice, debug_file)).demand(Demand::fail_if(arguments.strict));
    each::for_each(files, parts, Placement::Apart, |object, _| {
        if object.is_compact() && arguments.sframe.is_some() {
            bail!("--sframe: a Mach-O file has no .sframe; use --unwind-info for its table");
        }
        if !object.is_compact() && arguments.unwind_info.is_some() {
            bail!("--unwind-info: an ELF file has no __unwind_info; use --sframe for its table");
        }
        object.check_address(arguments.address.filter(|_| table.is_none()))?;
        if object.is_compact() {
            return unwind_info::check(object, table.as_ref(), arguments);
        }
        sframe::verify(object, table.as_ref(), arguments)
    })
}
