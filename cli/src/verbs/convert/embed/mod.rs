//! The conversion into files. Each file gets a table. The table is read back and verified before the file is replaced.

mod report;
mod table;

#[cfg(test)]
pub use table::Table;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};

use crate::edit::many::{IN_PLACE, ManyFiles};
use crate::io::debug_file::{DebugFile, DebugFileOption};
use crate::io::mmap::Bytes;
use crate::report::edits::{self, Run};
use crate::report::limits::Limits;
use crate::report::status::Status;
use crate::table_options::TableOptions;

use table::Embed;

/// Options for files with tables in them
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Options for files with tables in them")]
pub struct FileOptions {
    /// Write INPUT with the table in it to OUT; "-" is standard output
    #[arg(short, long, value_name = "OUT", conflicts_with_all = ["section", "address", "in_place"])]
    output: Option<PathBuf>,
    /// Put a table into each INPUT, which is replaced when its table is verified: linked files, objects,
    /// archives
    #[arg(long, conflicts_with_all = ["section", "address"])]
    in_place: bool,
    /// Do not convert files that have a table of this version already, right or stale: only headers are
    /// read
    #[arg(long, requires = "in_place")]
    skip_done: bool,
    /// Leave objects and archives as they are: not every linker takes those with tables
    #[arg(long, requires = "in_place")]
    linked_only: bool,
    /// Do not verify tables against the CFI; the structure of files is checked all the same
    #[arg(long, conflicts_with = "verify")]
    no_verify: bool,
    #[command(flatten)]
    many: ManyFiles,
}

/// The options of a conversion into files.
#[derive(Clone, Copy, Debug)]
pub struct Conversions {
    /// Options of the table.
    pub table: TableOptions,
    /// The number of threads for each file.
    pub threads: usize,
    /// The limits on the functions that a table may omit.
    pub limits: Limits,
    /// True if the report is JSON.
    pub json: bool,
}

impl FileOptions {
    /// Returns whether the command line asks to write files.
    pub fn writes_files(&self) -> bool {
        self.output.is_some() || self.in_place
    }

    /// Refuses options that have no effect if no file is written.
    pub fn check_unused(&self) -> anyhow::Result<()> {
        if self.no_verify {
            bail!("--no-verify: without -o or --in-place, verification needs --verify");
        }
        self.many.check_unused()
    }

    /// Puts tables into files.
    pub fn run(
        &self,
        inputs: &[PathBuf],
        conversions: Conversions,
        debug_file: &DebugFileOption,
    ) -> anyhow::Result<Status> {
        let place = self.many.destination(inputs, self.output.as_deref(), conversions.json, IN_PLACE)?;
        let embed = Embed {
            conversions,
            debug_file: one_debug_file(inputs, debug_file)?.map(Arc::new),
            skip_done: self.skip_done,
            linked_only: self.linked_only,
            is_copy: self.output.is_some(),
            verify: !self.no_verify,
        };
        let targets = self.many.find(inputs, &place)?;
        let (json, strict) = (conversions.json, conversions.limits.strict());
        let run = Run { json, strict, ..self.many.run(place) };
        edits::run(&embed, &targets.found, &run)
    }
}

/// Opens the debug file of the only input.
fn one_debug_file(inputs: &[PathBuf], option: &DebugFileOption) -> anyhow::Result<Option<DebugFile>> {
    if !option.is_given() {
        return Ok(None);
    }
    let [input] = inputs else { bail!("--debug-file: {} inputs, but it is for one", inputs.len()) };
    let name = || input.display().to_string();
    let bytes = Bytes::open(input, |_| u64::MAX).with_context(name)?;
    option.open(input, &bytes).with_context(name)
}
