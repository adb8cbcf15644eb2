//! `stats` of `__unwind_info` and `__compact_unwind`.

use std::collections::BTreeMap;
use std::io::Write;

use cfipack_container::{CompactUnwind, File};
use cfipack_decoder::unwind_info::Section;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::most_frequent_first;
use cfipack_roundtrip::unwind_info::{Code, Meaning, Modes, Stats, Table, modes, stats};
use serde::Serialize;

use super::build::ModesJson;
use super::explain::reasons_of_dwarf;
use super::source::Source;
use super::table::{BuiltTable, TableOptions};
use crate::io::each::Outcome;
use crate::io::input::{CALL_FRAMES, Object};
use crate::io::output;
use crate::report::count::{Counts, percent};
use crate::report::escaped::Escaped;
use crate::report::status::Status;

/// Counts the tables of an object; for one without a table, counts the table built from its CFI.
pub fn count(object: &Object<'_>, json: bool) -> anyhow::Result<Outcome> {
    let source = Source::of(object)?;
    let report = match (source.parse()?, &source.rows) {
        (Some(section), _) => of_table(object, &source, &section)?,
        (None, Some(compact)) => of_rows(object, source.arch()?, compact),
        (None, None) => {
            let file = object.file()?;
            if file.call_frame_sections()?.is_empty() {
                return Ok(Outcome::Absent(CALL_FRAMES));
            }
            of_cfi(object, file, &source)?
        }
    };
    let mut out = output::standard();
    if json {
        output::json(&mut out, &report)?;
    } else {
        report.print(&mut out)?;
    }
    out.flush()?;
    Ok(Outcome::Done(Status::Done))
}

/// An image's own table.
fn of_table(
    object: &Object<'_>,
    source: &Source<'_, '_>,
    section: &Section<'_>,
) -> anyhow::Result<StatsJson> {
    let arch = source.arch()?;
    let table = Table::of_image(arch, source.base(), section, source.code());
    let coverage = source.file.map(|file| coverage(file, source.code(), &table)).transpose()?;
    Ok(StatsJson {
        table: Some(TableJson::new(&stats(arch, section))),
        coverage: coverage.flatten(),
        ..StatsJson::new(object, "file")
    })
}

/// The rows of an object.
fn of_rows(object: &Object<'_>, arch: Arch, compact: &CompactUnwind<'_>) -> StatsJson {
    let modes = modes(arch, compact.rows.iter().map(|row| row.encoding));
    let rows = RowsJson {
        bytes: compact.section.bytes.len(),
        rows: compact.rows.len(),
        modes: ModesJson::new(&modes),
        personalities: compact.personalities.len(),
        lsdas: compact.rows.iter().filter(|row| row.lsda.is_some()).count(),
        words: words(&modes),
    };
    StatsJson { rows: Some(rows), ..StatsJson::new(object, "file") }
}

/// The table that is built from a file's CFI.
fn of_cfi(object: &Object<'_>, file: &File<'_>, source: &Source<'_, '_>) -> anyhow::Result<StatsJson> {
    let built = BuiltTable::of(file, source, &TableOptions::FROM_CFI)?;
    let encodings = &built.entries.encodings;
    let coverage = Coverage {
        functions: encodings.functions,
        compact: encodings.compact(),
        dwarf: encodings.in_dwarf_mode.len() as u64,
        none: encodings.malformed.len() as u64,
        reasons: encodings.reasons(),
    };
    Ok(StatsJson {
        table: Some(TableJson::new(&built.stats(file)?)),
        coverage: Some(coverage),
        ..StatsJson::new(object, "conversion")
    })
}

/// How the functions in the linker's list of starts are unwound; none without such a list.
fn coverage(file: &File<'_>, code: Code<'_>, table: &Table<'_>) -> anyhow::Result<Option<Coverage>> {
    let starts: Vec<Address> = file.function_starts()?;
    if starts.is_empty() {
        return Ok(None);
    }
    let mut coverage = Coverage { functions: starts.len() as u64, ..Coverage::default() };
    for start in starts {
        let meaning = table.find(start).map_or(Meaning::Nothing, |entry| table.meaning(entry));
        match meaning {
            Meaning::Row(..) => coverage.compact += 1,
            Meaning::Dwarf => coverage.dwarf += 1,
            Meaning::Nothing | Meaning::Malformed(_) => coverage.none += 1,
        }
    }
    coverage.reasons = reasons_of_dwarf(file, code, table)?;
    Ok(Some(coverage))
}

/// The report, as `cfipack/stats/1`.
#[derive(Serialize)]
struct StatsJson {
    schema: &'static str,
    file: String,
    /// `file` or `conversion`.
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<TableJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<RowsJson>,
    coverage: Option<Coverage>,
}

/// How functions are unwound, and the reasons of those in DWARF mode.
#[derive(Serialize, Default)]
struct Coverage {
    functions: u64,
    compact: u64,
    dwarf: u64,
    none: u64,
    reasons: BTreeMap<&'static str, u64>,
}

/// `__compact_unwind`.
#[derive(Serialize)]
struct RowsJson {
    bytes: usize,
    rows: usize,
    modes: ModesJson,
    personalities: usize,
    lsdas: usize,
    #[serde(skip)]
    words: String,
}

/// `__unwind_info`.
#[derive(Serialize)]
struct TableJson {
    bytes: BTreeMap<&'static str, u64>,
    compressed_pages: u64,
    regular_pages: u64,
    broken_pages: u64,
    entries: u64,
    modes: ModesJson,
    encodings: u64,
    lsdas: u64,
    personalities: u64,
    code: u64,
    #[serde(skip)]
    words: String,
    #[serde(skip)]
    parts: [(&'static str, u64); 9],
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

impl TableJson {
    fn new(stats: &Stats) -> Self {
        let bytes = &stats.bytes;
        let parts = [
            ("header", bytes.header),
            ("common_encodings", bytes.common_encodings),
            ("personalities", bytes.personalities),
            ("index", bytes.index),
            ("lsdas", bytes.lsdas),
            ("page_headers", bytes.page_headers),
            ("entries", bytes.entries),
            ("page_encodings", bytes.page_encodings),
            ("other", bytes.other),
        ];
        let mut by_part: BTreeMap<_, _> = parts.into_iter().collect();
        by_part.insert("total", bytes.total);
        Self {
            bytes: by_part,
            compressed_pages: stats.compressed_pages,
            regular_pages: stats.regular_pages,
            broken_pages: stats.broken_pages,
            entries: stats.entries,
            modes: ModesJson::new(&stats.modes),
            encodings: stats.encodings,
            lsdas: stats.lsdas,
            personalities: stats.personalities,
            code: stats.code,
            words: words(&stats.modes),
            parts,
        }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let total = self.bytes.get("total").copied().unwrap_or(0);
        writeln!(out, "  __unwind_info: {total} bytes")?;
        for (name, size) in self.parts.into_iter().filter(|&(_, size)| size != 0) {
            writeln!(out, "    {:<16} {size:>10}  {:>8}", name.replace('_', " "), percent(size, total))?;
        }
        let Self { compressed_pages, regular_pages, broken_pages, entries, encodings, .. } = self;
        let broken = Counts(&[("that cannot be read", *broken_pages)]).to_string();
        writeln!(out, "  pages: {compressed_pages} compressed, {regular_pages} regular{broken}")?;
        writeln!(out, "  entries: {entries}{}", self.words)?;
        let Self { personalities, lsdas, code, .. } = self;
        write!(out, "  different encodings: {encodings}, personalities: {personalities}, LSDAs: {lsdas}")?;
        writeln!(out, ", bytes of code: {code}")
    }
}

impl StatsJson {
    fn new(object: &Object<'_>, source: &'static str) -> Self {
        let (schema, file) = ("cfipack/stats/1", object.name.plain());
        Self { schema, file, source, table: None, rows: None, coverage: None }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let source =
            if self.source == "conversion" { " (no table in the file; as built from its CFI)" } else { "" };
        writeln!(out, "{}:{source}", Escaped(&self.file))?;
        if let Some(table) = &self.table {
            table.print(out)?;
        }
        if let Some(RowsJson { bytes, rows, words, personalities, lsdas, .. }) = &self.rows {
            writeln!(out, "  __compact_unwind: {bytes} bytes")?;
            writeln!(out, "  rows: {rows}{words}")?;
            writeln!(out, "  personalities: {personalities}, LSDAs: {lsdas}")?;
        }
        let Some(Coverage { functions, compact, dwarf, none, reasons }) = &self.coverage else {
            return Ok(());
        };
        write!(out, "  functions: {functions}: {compact} compact ({})", percent(*compact, *functions))?;
        writeln!(out, ", {dwarf} in DWARF mode, {none} without unwind information")?;
        let reasons = most_frequent_first(reasons);
        if !reasons.is_empty() {
            writeln!(out, "  in DWARF mode: {}", Counts(&reasons).list())?;
        }
        Ok(())
    }
}
