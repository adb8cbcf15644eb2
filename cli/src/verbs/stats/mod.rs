//! `stats`: prints the size of a table by part, and the code that it covers.

pub mod sframe;
pub mod unwind_info;

use std::path::PathBuf;

use cfipack_container::Placement;

use crate::io::debug_file::DebugFileOption;
use crate::io::each;
use crate::io::input::{self, Demand, Parts};
use crate::report::limits::Limits;
use crate::report::status::Status;
use crate::report::symbol::Names;
use crate::table_options::TableOptions;

/// Prints the sizes of a table's parts and its coverage
#[derive(clap::Args, Debug)]
#[command(after_help = "\
For a file without a table, the figures are those of the table that a conversion writes.

Examples:
  cfi2sframe stats a.out libfoo.so
  cfi2sframe stats --layout gnu --json libfoo.so | jq .tables[0].bytes")]
pub struct Arguments {
    /// Objects, linked files, archives of objects, or bare .sframe or __unwind_info sections
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object for each file, one per line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub names: Names,
    #[command(flatten)]
    debug_file: DebugFileOption,
    #[command(flatten)]
    slice: input::Slice,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub table: TableOptions,
}

/// Counts the tables of every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    arguments.table.check()?;
    arguments.debug_file.check(&arguments.files)?;
    let parts = Parts::from((&arguments.slice, &arguments.debug_file));
    let parts = parts.demand(Demand::fail_if(arguments.limits.strict()));
    each::for_each(&arguments.files, parts, Placement::Apart, |object, _| {
        if object.is_compact() {
            return unwind_info::count(object, arguments);
        }
        sframe::count(object, arguments)
    })
}
