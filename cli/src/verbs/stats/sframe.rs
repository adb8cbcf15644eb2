//! `stats` of `.sframe`.

use std::collections::BTreeMap;
use std::io::Write;

use cfipack_container::File;
use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use cfipack_lint::coverage::CodeBytes;
use cfipack_roundtrip::{Options, Stats, stats};
use serde::Serialize;

use super::Arguments;
use crate::conversion::Conversion;
use crate::io::debug_file::{DebugFile, DebugFileJson};
use crate::io::each::Outcome;
use crate::io::input::{self, CALL_FRAMES, Contents, Object};
use crate::io::output;
use crate::report::cfi_bytes::CfiBytes;
use crate::report::code;
use crate::report::count::{Counts, Number, percent};
use crate::report::escaped::FileName;
use crate::report::limits::Covered;
use crate::report::place::Places;
use crate::report::reasons;
use crate::report::source::Source;
use crate::report::status::{self, Status};
use crate::report::unverified::WithoutRows;
use crate::report::verification;
use crate::table_options::TableOptions;

/// Counts the tables of an object. If the object has no table, counts the table that a conversion writes.
pub fn count(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let sections = object.sframe_sections(Address(0))?;
    let tables = object.tables(&sections)?;
    if let Contents::File(file) = &object.contents
        && tables.is_empty()
        && !input::describe_functions(&file.call_frame_sections()?)
    {
        return Ok(Outcome::Absent(CALL_FRAMES));
    }
    if !tables.is_empty() {
        arguments.table.check_unused()?;
    }
    let name = object.name.plain();
    let places = Places::of_object(object).with_names(arguments.names);
    let mut report = match &object.contents {
        Contents::File(file) if tables.is_empty() => converted(name, file, &arguments.table, &places)?,
        Contents::File(file) => {
            let found = object.found_tables(&sections, tables.clone());
            let coverage = coverage(file, &found, &places)?;
            StatsJson { coverage, ..StatsJson::new(name, Source::Table, &tables) }
        }
        Contents::Table(_) | Contents::UnwindInfo(_) => {
            arguments.limits.check_unused()?;
            StatsJson::new(name, Source::Table, &tables)
        }
    };
    report.debug_file = object.debug_file.map(DebugFile::json);
    let mut out = output::standard();
    if arguments.json {
        output::json(&mut out, &report)?;
    } else {
        report.print(&mut out)?;
        object.print_debug_file(&mut out)?;
    }
    let covered = report.coverage.as_ref().map(|coverage| Covered {
        functions: coverage.functions,
        converted: coverage.covered,
        code: Some(coverage.code_coverage),
        unplaced: &[],
    });
    let status = covered.map(|covered| arguments.limits.status(&object.name, &covered));
    status::judged(status.unwrap_or(Status::Done), out.flush().map_err(Into::into)).map(Outcome::Done)
}

/// Counts the table that a conversion writes.
fn converted(
    name: FileName,
    file: &File<'_>,
    options: &TableOptions,
    places: &Places<'_, '_>,
) -> anyhow::Result<StatsJson> {
    let sections = input::call_frame_sections(file)?;
    let conversion = Conversion::placed(file, &sections, &options.judged(), 1)?;
    let bytes = conversion.bytes(file)?;
    let table = Section::parse(&bytes, conversion.address)?;
    let coverage = Coverage {
        functions: conversion.functions,
        covered: conversion.converted(),
        reasons: conversion.reasons().into_iter().map(|(name, count)| (name.to_string(), count)).collect(),
        without_rows: WithoutRows::of_conversion(places, &conversion),
        code_coverage: conversion
            .with_table(file, &bytes, |tables| Ok(CodeBytes::of_tables(file, tables)?))?,
        cfi_bytes: CfiBytes::measure(file, &sections)?,
    };
    Ok(StatsJson { coverage: Some(coverage), ..StatsJson::new(name, Source::Cfi, &[table]) })
}

/// Returns the share of a file's CFI that its own tables cover, or `None` if it has no CFI.
fn coverage(
    file: &File<'_>,
    tables: &[Section<'_>],
    places: &Places<'_, '_>,
) -> anyhow::Result<Option<Coverage>> {
    let sections = file.call_frame_sections()?;
    if !input::describe_functions(&sections) {
        return Ok(None);
    }
    let report = verification::against_any(file, &sections, tables, &Options::default(), 1)?;
    Ok(Some(Coverage {
        functions: report.functions,
        covered: report.equal + report.different,
        reasons: report.reasons,
        without_rows: WithoutRows::new(places, &report.unverified, report.more_unverified),
        code_coverage: CodeBytes::of_tables(file, tables)?,
        cfi_bytes: CfiBytes::measure(file, &sections)?,
    }))
}

/// The report, as `cfipack/stats/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SframeReport"))]
pub struct StatsJson {
    schema: &'static str,
    file: FileName,
    source: Source,
    /// The separate debug file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    debug_file: Option<DebugFileJson>,
    tables: Vec<TableJson>,
    coverage: Option<Coverage>,
}

/// The number of the CFI's functions that the tables cover.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Coverage {
    functions: u64,
    covered: u64,
    reasons: BTreeMap<String, u64>,
    #[serde(flatten)]
    without_rows: WithoutRows,
    code_coverage: CodeBytes,
    cfi_bytes: CfiBytes,
}

/// A `.sframe` table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SframeTable"))]
struct TableJson {
    version: u8,
    #[serde(flatten)]
    stats: Stats,
}

impl TableJson {
    fn new(table: &Section<'_>) -> Self {
        Self { version: table.header().version, stats: stats(table) }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let Self { version, stats } = self;
        let bytes = &stats.bytes;
        writeln!(out, "  version {}: {} bytes", version, bytes.total)?;
        let parts = [
            ("header", bytes.header),
            ("function index", bytes.index),
            ("attributes", bytes.attributes),
            ("starts of rows", bytes.starts),
            ("info bytes", bytes.infos),
            ("data words", bytes.data_words),
            ("other", bytes.other),
        ];
        for (name, size) in parts.into_iter().filter(|&(_, size)| size != 0) {
            writeln!(out, "    {name:<15} {size:>10}  {:>8}", percent(size, bytes.total))?;
        }
        if stats.shared_blocks != 0 {
            let Stats { sharing, shared_blocks, .. } = stats;
            let blocks = Number(*shared_blocks, "block");
            write!(out, "    {sharing} functions share {blocks} of rows,")?;
            writeln!(out, " which saves {}", Number(bytes.saved_by_sharing, "byte"))?;
        }
        let [one, two, four] = stats.functions_by_start_width;
        let kinds = [
            ("with 1-byte starts", one),
            ("with 2-byte starts", two),
            ("with 4-byte starts", four),
            ("flex", stats.flex),
            ("PC-mask", stats.pc_mask),
            ("signal frames", stats.signal_frames),
            ("with key B", stats.key_b),
            ("unwound as innermost frames only", stats.innermost_only),
            ("without rows", stats.without_rows),
            ("that cannot be read", stats.malformed),
        ];
        writeln!(out, "  functions: {}{}", stats.functions, Counts(&kinds))?;
        let [one, two, four] = stats.rows_by_word_width;
        let kinds = [
            ("with 1-byte words", one),
            ("with 2-byte words", two),
            ("with 4-byte words", four),
            ("of outermost frames", stats.outermost),
        ];
        writeln!(out, "  rows: {}, stored: {}{}", stats.rows, stats.rows_stored, Counts(&kinds))?;
        writeln!(out, "  most rows in a function: {}", stats.most_rows)
    }
}

impl StatsJson {
    fn new(file: FileName, source: Source, tables: &[Section<'_>]) -> Self {
        let tables = tables.iter().map(TableJson::new).collect();
        Self { schema: "cfipack/stats/1", file, source, debug_file: None, tables, coverage: None }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let source = match self.source {
            Source::Table => "",
            Source::Cfi => " (no table in the file; as converted)",
        };
        writeln!(out, "{}:{source}", self.file)?;
        for table in &self.tables {
            table.print(out)?;
        }
        let Some(coverage) = &self.coverage else { return Ok(()) };
        let Coverage { functions, covered, reasons, without_rows, code_coverage, cfi_bytes } = coverage;
        let total = self.tables.iter().map(|table| table.stats.bytes.total).sum();
        writeln!(out, "  size: {} of {cfi_bytes}", percent(total, cfi_bytes.total()))?;
        let all = Number(*functions, "function");
        writeln!(out, "  covered: {covered} of {all} ({})", percent(*covered, *functions))?;
        reasons::print(out, "omitted", reasons)?;
        without_rows.print(out)?;
        writeln!(out, "  {}", code::line(code_coverage))
    }
}
