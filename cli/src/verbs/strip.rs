//! `strip`: removes tables from linked files, objects and archives.

use std::path::PathBuf;

use cfipack_container::File;
use cfipack_edit::{Rewrite, without_sframe};
use cfipack_format::widen::ToU64;
use serde::Serialize;

use crate::edit::many::{ManyFiles, WITHOUT_OUTPUT};
use crate::edit::{Edit, FileReport, Problem, Skip};
use crate::report::count::Number;
use crate::report::edits::{self, Reported, Run, Totals};
use crate::report::limits::Remark;
use crate::report::status::Status;

/// Removes .sframe tables: sections, relocations, program headers and segments
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without -o, files are replaced, each when the structure of the new one is checked: a program
that is killed leaves the old file. Files without a table stay as they are.

Examples:
  cfi2sframe strip a.out                       a.out without its table
  cfi2sframe strip libfoo.a -o libfoo.old.a    members without tables, for linkers that fail on them
  cfi2sframe strip -r build-root")]
pub struct Arguments {
    /// Linked files, objects, archives; directories with -r
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the one FILE without its table to OUT; "-" is standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Print one JSON object for each file, one per line
    #[arg(long)]
    json: bool,
    /// Exit status 1 for warnings about files that stay as they are
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    many: ManyFiles,
}

/// Strips every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let Arguments { files, output, json, strict, many } = arguments;
    let place = many.destination(files, output.as_deref(), *json, WITHOUT_OUTPUT)?;
    let targets = many.find(files, &place)?;
    edits::run(&Strip, &targets.found, &Run { json: *json, strict: *strict, ..many.run(place) })
}

/// The edit: a file without its table.
struct Strip;

/// The report about an object.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stripped {
    /// The size of the removed tables in bytes.
    sframe_bytes: u64,
}

impl Edit for Strip {
    type Report = Stripped;

    const WAY_OUT: &'static str = "objcopy --remove-section .sframe removes the table too";

    fn edit<'a>(&self, object: &'a [u8]) -> Result<(Option<Rewrite<'a>>, Stripped), Problem> {
        let file = File::parse(object)?;
        let new = without_sframe(&file)?.ok_or(Problem::Skip(Skip::NoTable))?;
        let tables = file.sframe_sections()?;
        let sframe_bytes = tables.iter().map(|table| table.bytes.len().to_u64()).sum();
        Ok((Some(new), Stripped { sframe_bytes }))
    }

    fn judge(&self, new: &[u8], _: &mut Stripped) -> Result<(), Problem> {
        let file = File::parse(new)?;
        if !file.sframe_sections()?.is_empty()
            || file.as_elf().is_some_and(|elf| elf.sframe_segment().is_some())
        {
            return Err(Problem::Refused("the new file still has a table".into()));
        }
        Ok(())
    }
}

impl Reported for Strip {
    const VERB: &'static str = "strip";

    fn line(&self, FileReport { parts, .. }: &FileReport<Stripped>) -> String {
        let bytes = parts.iter().map(|part| part.report.sframe_bytes).sum();
        match &parts[..] {
            [] => String::new(),
            _ => format!(", {} of .sframe removed", Number(bytes, "byte")),
        }
    }

    fn add(&self, FileReport { parts, .. }: &FileReport<Stripped>, totals: &mut Totals) -> Vec<Remark> {
        totals.tables += parts.len().to_u64();
        totals.sframe += parts.iter().map(|part| part.report.sframe_bytes).sum::<u64>();
        Vec::new()
    }

    fn summary(&self, totals: &Totals) -> Vec<String> {
        let (tables, bytes) = (Number(totals.tables, "table"), Number(totals.sframe, "byte"));
        vec![format!("removed: {tables} of {bytes}")]
    }
}
