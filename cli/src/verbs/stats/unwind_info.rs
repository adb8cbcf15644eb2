//! `stats` of `__unwind_info` and `__compact_unwind`.

use std::collections::BTreeMap;
use std::io::Write;

use cfipack_container::{CompactUnwind, File};
use cfipack_decoder::unwind_info::Section;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::Unverified;
use cfipack_roundtrip::unwind_info::{Code, Meaning, Modes, Stats, Table, modes, stats};
use serde::Serialize;

use super::Arguments;
use crate::compact::encodings::{CompactEncoder, Coverage};
use crate::compact::source::{Source, function_starts};
use crate::compact::table::{BuiltTable, TableOptions};
use crate::io::each::Outcome;
use crate::io::input::{CALL_FRAMES, Object};
use crate::io::output;
use crate::report::count::{Counts, percent};
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::reasons::{self, ENCODABLE};
use crate::report::source::Source as TableSource;
use crate::report::status::Status;
use crate::report::unverified::WithoutRows;

/// Counts the tables of an object. If the object has no table, counts the table that is built from its CFI.
pub fn count(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.table.check_unused()?;
    arguments.limits.check_unused()?;
    let source = Source::find(object)?;
    let places = Places::of_object(object).with_names(arguments.names);
    let report = match (source.parse()?, &source.rows) {
        (Some(section), _) => of_table(object, &source, &section, &places)?,
        (None, Some(compact)) => of_rows(object, source.arch()?, compact),
        (None, None) => {
            let file = object.file()?;
            if file.call_frame_sections()?.is_empty() {
                return Ok(Outcome::Absent(CALL_FRAMES));
            }
            of_cfi(object, file, &source, &places)?
        }
    };
    let mut out = output::standard();
    if arguments.json {
        output::json(&mut out, &report)?;
    } else {
        report.print(&mut out)?;
    }
    out.flush()?;
    Ok(Outcome::Done(Status::Done))
}

/// Counts an image's own table.
fn of_table(
    object: &Object<'_>,
    source: &Source<'_, '_>,
    section: &Section<'_>,
    places: &Places<'_, '_>,
) -> anyhow::Result<StatsJson> {
    let arch = source.arch()?;
    let table = Table::of_image(arch, source.base(), section, source.code());
    let coverage = source.file.map(|file| coverage(file, source.code(), &table, places)).transpose()?;
    Ok(StatsJson {
        unwind_info: Some(stats(arch, section)),
        coverage: coverage.flatten(),
        ..StatsJson::new(object, TableSource::Table)
    })
}

/// Counts the rows of an object.
fn of_rows(object: &Object<'_>, arch: Arch, compact: &CompactUnwind<'_>) -> StatsJson {
    let modes = modes(arch, compact.rows.iter().map(|row| row.encoding));
    let rows = RowsJson {
        bytes: compact.section.bytes.len(),
        rows: compact.rows.len(),
        modes,
        personalities: compact.personalities.len(),
        lsdas: compact.rows.iter().filter(|row| row.lsda.is_some()).count(),
    };
    StatsJson { compact_unwind: Some(rows), ..StatsJson::new(object, TableSource::Table) }
}

/// Counts the table that is built from a file's CFI.
fn of_cfi(
    object: &Object<'_>,
    file: &File<'_>,
    source: &Source<'_, '_>,
    places: &Places<'_, '_>,
) -> anyhow::Result<StatsJson> {
    let built = BuiltTable::build(file, source, &TableOptions::FROM_CFI)?;
    let encodings = &built.entries.encodings;
    let malformed = encodings.malformed.iter();
    let malformed = malformed.map(|error| Unverified::missing(None, None, error.to_string()));
    let without_rows = WithoutRows::first(places, malformed.collect());
    let coverage = TableCoverage { coverage: encodings.coverage(), without_rows };
    Ok(StatsJson {
        unwind_info: Some(built.stats(file)?),
        coverage: Some(coverage),
        ..StatsJson::new(object, TableSource::Cfi)
    })
}

/// Counts how the functions in the linker's list of starts are unwound. Returns `None` if the file has no list.
fn coverage(
    file: &File<'_>,
    code: Code<'_>,
    table: &Table<'_>,
    places: &Places<'_, '_>,
) -> anyhow::Result<Option<TableCoverage>> {
    let starts: Vec<Address> = function_starts(file)?;
    if starts.is_empty() {
        return Ok(None);
    }
    let mut coverage = Coverage { functions: starts.len().to_u64(), ..Coverage::default() };
    let mut without = Vec::new();
    for start in starts {
        let entry = table.find(start);
        let meaning = entry.map_or(Meaning::Nothing, |entry| table.meaning(entry));
        let (count, fault) = match (meaning, entry) {
            (Meaning::Row(..), _) => (&mut coverage.compact, None),
            (Meaning::Dwarf, _) => (&mut coverage.dwarf, None),
            (Meaning::Malformed(_), _) => (&mut coverage.none, Some("an encoding that cannot be read")),
            (Meaning::Nothing, Some(_)) => (&mut coverage.none, Some("an entry without unwind information")),
            (Meaning::Nothing, None) => (&mut coverage.none, Some("no entry")),
        };
        *count += 1;
        without.extend(fault.map(|words| Unverified::missing(Some(start), None, words.to_owned())));
    }
    coverage.reasons = reasons_of_dwarf(file, code, table)?;
    Ok(Some(TableCoverage { coverage, without_rows: WithoutRows::first(places, without) }))
}

/// Counts the functions in DWARF mode by reason.
fn reasons_of_dwarf(
    file: &File<'_>,
    code: Code<'_>,
    table: &Table<'_>,
) -> anyhow::Result<BTreeMap<&'static str, u64>> {
    let mut counts = BTreeMap::new();
    let sections = file.call_frame_sections()?;
    let mut encoder = CompactEncoder::new(file.arch(), code)?;
    for section in &sections {
        for function in cfipack_cfi::Functions::new(&section.cfi()).flatten() {
            let entry = table.find(function.key.address());
            if entry.is_some_and(|entry| table.meaning(entry) == Meaning::Dwarf) {
                let found = encoder.encode(&function);
                let reason = found.map_or_else(|unsupported| unsupported.reason.name(), |_| ENCODABLE);
                *counts.entry(reason).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

/// The report, as `cfipack/stats/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactReport"))]
pub struct StatsJson {
    schema: &'static str,
    file: FileName,
    source: TableSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    unwind_info: Option<Stats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compact_unwind: Option<RowsJson>,
    coverage: Option<TableCoverage>,
}

/// How functions are unwound, and which functions have no unwind information.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactTableCoverage"))]
struct TableCoverage {
    #[serde(flatten)]
    coverage: Coverage,
    #[serde(flatten)]
    without_rows: WithoutRows,
}

/// `__compact_unwind`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactUnwind"))]
struct RowsJson {
    bytes: usize,
    rows: usize,
    modes: Modes,
    personalities: usize,
    lsdas: usize,
}

fn words(modes: &Modes) -> String {
    let kinds = [
        ("with a frame pointer", modes.frame),
        ("frameless", modes.frameless),
        ("frameless with the size in the code", modes.indirect),
        ("in DWARF mode", modes.dwarf),
        ("without unwind information", modes.none),
        ("malformed", modes.malformed),
        ("within functions", modes.not_function_start),
    ];
    Counts(&kinds).to_string()
}

fn print_table(stats: &Stats, out: &mut impl Write) -> std::io::Result<()> {
    let bytes = &stats.bytes;
    writeln!(out, "  __unwind_info: {} bytes", bytes.total)?;
    let parts = [
        ("header", bytes.header),
        ("common encodings", bytes.common_encodings),
        ("personalities", bytes.personalities),
        ("index", bytes.index),
        ("lsdas", bytes.lsdas),
        ("page headers", bytes.page_headers),
        ("entries", bytes.entries),
        ("page encodings", bytes.page_encodings),
        ("other", bytes.other),
    ];
    for (name, size) in parts.into_iter().filter(|&(_, size)| size != 0) {
        writeln!(out, "    {name:<16} {size:>10}  {:>8}", percent(size, bytes.total))?;
    }
    let Stats { compressed_pages, regular_pages, entries, encodings, .. } = stats;
    let malformed = Counts(&[("that cannot be read", stats.malformed_pages)]).to_string();
    writeln!(out, "  pages: {compressed_pages} compressed, {regular_pages} regular{malformed}")?;
    writeln!(out, "  entries: {entries}{}", words(&stats.modes))?;
    let Stats { personalities, lsdas, code, .. } = stats;
    write!(out, "  different encodings: {encodings}, personalities: {personalities}, LSDAs: {lsdas}")?;
    writeln!(out, ", bytes of code: {code}")
}

impl StatsJson {
    fn new(object: &Object<'_>, source: TableSource) -> Self {
        let (schema, file) = ("cfipack/stats/1", object.name.plain());
        Self { schema, file, source, unwind_info: None, compact_unwind: None, coverage: None }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let source = match self.source {
            TableSource::Table => "",
            TableSource::Cfi => " (no table in the file; as built from its CFI)",
        };
        writeln!(out, "{}:{source}", self.file)?;
        if let Some(table) = &self.unwind_info {
            print_table(table, out)?;
        }
        if let Some(RowsJson { bytes, rows, modes, personalities, lsdas }) = &self.compact_unwind {
            writeln!(out, "  __compact_unwind: {bytes} bytes")?;
            writeln!(out, "  rows: {rows}{}", words(modes))?;
            writeln!(out, "  personalities: {personalities}, LSDAs: {lsdas}")?;
        }
        let Some(TableCoverage { coverage, without_rows }) = &self.coverage else { return Ok(()) };
        let Coverage { functions, compact, dwarf, none, reasons } = coverage;
        write!(out, "  functions: {functions}: {compact} compact ({})", percent(*compact, *functions))?;
        writeln!(out, ", {dwarf} in DWARF mode, {none} without unwind information")?;
        without_rows.print(out)?;
        reasons::print(out, "in DWARF mode", reasons)
    }
}
