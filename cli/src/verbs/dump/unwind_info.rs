//! `dump` of `__unwind_info` and `__compact_unwind`, as llvm-objdump prints them.

use std::cell::Cell;
use std::io::Write as _;

use anyhow::{Context as _, bail};
use cfipack_decoder::compact_unwind::{self, Destination};
use cfipack_decoder::unwind_info;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{LsdaEntry, PageKind};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Arch, ImageOffset, SectionOffset};
use serde::Serialize;

use super::Arguments;
use crate::compact::source::{self, Source};
use crate::io::each::Outcome;
use crate::io::input::Object;
use crate::io::output::{self, from_fn};
use crate::report::escaped::{Escaped, FileName};
use crate::report::status::Status;

/// Dumps the tables of an object. If a page cannot be read, prints an error in its place, and returns the error after
/// the rest is printed.
pub fn dump(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.symbols {
        bail!("--symbols prints .sframe tables");
    }
    let source = Source::find(object)?;
    if source.is_empty() {
        return Ok(Outcome::Absent(source::TABLES));
    }
    let table = source.parse()?;
    let mut out = output::standard();
    if arguments.json {
        output::json(&mut out, &DumpJson::new(object.name.plain(), &source, table.as_ref())?)?;
        out.flush()?;
        return match table.and_then(|table| table.pages().find_map(Result::err)) {
            Some(error) => Err(error).context("section __unwind_info"),
            None => Ok(Outcome::Done(Status::Done)),
        };
    }
    if let Some(file) = source.file {
        write!(out, "\n{}:\tfile format {}\nUnwind info:\n\n", object.name, format_name(file.arch()))?;
    }
    if let Some(compact) = &source.rows {
        let section = compact_unwind::Section::parse(&compact.section.bytes, source.arch()?.pointer_size())
            .with_context(|| format!("section {}", compact.section.name))?;
        let destination = |field| {
            let referent = compact.referent(field)?;
            Some(Destination { name: Escaped(&referent.name), addend: referent.addend })
        };
        write!(out, "{}", from_fn(|f| section.dump(f, destination)))?;
    }
    let broken = Cell::new(None);
    if let Some(table) = table {
        write!(out, "{}", from_fn(|f| table.dump(f).map(|summary| broken.set(summary.first))))?;
    }
    out.flush()?;
    match broken.into_inner() {
        Some(error) => Err(error).context("section __unwind_info"),
        None => Ok(Outcome::Done(Status::Done)),
    }
}

/// Returns LLVM's name for the file format.
fn format_name(arch: Arch) -> &'static str {
    match arch {
        Arch::I386 => "mach-o 32-bit i386",
        Arch::Aarch64 => "mach-o arm64",
        Arch::Arm64_32 => "mach-o arm64 (ilp32)",
        Arch::Amd64 | Arch::Aarch64Be | Arch::S390x | Arch::Riscv64 => "mach-o 64-bit x86-64",
    }
}

/// A dump of both tables. Addresses in `unwind_info` are image offsets. In `compact_unwind` they are the object's.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactTables"))]
pub struct DumpJson {
    schema: &'static str,
    file: FileName,
    #[serde(skip_serializing_if = "Option::is_none")]
    unwind_info: Option<TableJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compact_unwind: Option<Vec<RowJson>>,
}

/// `__unwind_info`. `end` is the image offset in its sentinel.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "UnwindInfo"))]
struct TableJson {
    bytes: usize,
    common_encodings: Vec<Encoding>,
    personalities: Vec<ImageOffset>,
    end: Option<ImageOffset>,
    lsdas: Vec<LsdaEntry>,
    pages: Vec<PageJson>,
}

/// A page, or the reason why it cannot be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PageOrError"))]
#[serde(untagged)]
enum PageJson {
    Page { offset: SectionOffset, kind: &'static str, encodings: Vec<Encoding>, entries: Vec<EntryJson> },
    Error { error: String },
}

/// An entry, or the reason why it cannot be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EntryOrError"))]
#[serde(untagged)]
enum EntryJson {
    Entry { function: ImageOffset, encoding: Encoding },
    Error { error: String },
}

/// A row of `__compact_unwind`. `personality` is a symbol, and `lsda` an address.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactRow"))]
struct RowJson {
    offset: SectionOffset,
    function: Address,
    size: u32,
    encoding: Encoding,
    personality: Option<String>,
    lsda: Option<Address>,
}

impl DumpJson {
    fn new(
        file: FileName,
        source: &Source<'_, '_>,
        table: Option<&unwind_info::Section<'_>>,
    ) -> anyhow::Result<Self> {
        let rows = source.rows.as_ref().map(|compact| {
            let rows = compact.rows.iter().map(|row| RowJson {
                offset: row.offset,
                function: row.function,
                size: row.length,
                encoding: row.encoding,
                personality: row.personality.and_then(|number| {
                    let name = compact.personalities.get(number.get().to_usize() - 1)?.name.clone();
                    Some(name.into_owned())
                }),
                lsda: row.lsda,
            });
            rows.collect()
        });
        let table = table.map(TableJson::new).transpose().context("section __unwind_info")?;
        Ok(Self { schema: "cfipack/dump/1", file, unwind_info: table, compact_unwind: rows })
    }
}

impl TableJson {
    fn new(table: &unwind_info::Section<'_>) -> Result<Self, unwind_info::Error> {
        let pages = table.pages().map(|page| match page {
            Ok(page) => PageJson::new(&page),
            Err(error) => PageJson::Error { error: error.to_string() },
        });
        Ok(Self {
            bytes: table.bytes().len(),
            common_encodings: table.common_encodings().collect(),
            personalities: table.personalities().collect(),
            end: table.index().last().map(|sentinel| sentinel.function),
            lsdas: table.all_lsdas()?.collect(),
            pages: pages.collect(),
        })
    }
}

impl PageJson {
    fn new(page: &unwind_info::Page<'_>) -> Self {
        let entries =
            (0..page.len()).filter_map(|number| page.stored_entry(number)).map(|entry| match entry {
                Ok(entry) => EntryJson::Entry { function: entry.function, encoding: entry.encoding },
                Err(error) => EntryJson::Error { error: error.to_string() },
            });
        Self::Page {
            offset: page.offset(),
            kind: if page.kind() == PageKind::Regular { "regular" } else { "compressed" },
            encodings: page.local_encodings().collect(),
            entries: entries.collect(),
        }
    }
}
