//! `gaps`: lists code that no row covers.

use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::bail;
use cfipack_container::{File, Placement};
use cfipack_format::Address;
use cfipack_format::widen::ToU64;
use cfipack_lint::coverage::{self, CodeBytes, Gaps};
use serde::Serialize;

use crate::io::absent::SFRAME_TABLE;
use crate::io::debug_file::{DebugFile, DebugFileJson, DebugFileOption};
use crate::io::each::{self, Outcome};
use crate::io::input::{self, CALL_FRAMES, Demand, Object, Parts};
use crate::io::output;
use crate::report::code;
use crate::report::count::Number;
use crate::report::escaped::{Escaped, FileName};
use crate::report::place::Places;
use crate::report::source::Source;
use crate::report::status::{self, Status};
use crate::report::symbol::{Names, SymbolName};

/// Lists the code that no row of the table covers
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Code is what lies in executable sections. A gap ends where a symbol starts, so that each
has a name. What consists of nops, traps or zeros alone is padding, which is counted and
not listed.

Examples:
  cfi2sframe gaps vmlinux         what an unwinder that reads .sframe alone cannot pass
  cfi2sframe gaps --cfi a.out     what no call frame information covers either
  cfi2sframe gaps --json a.out | jq '.gaps[].symbol'")]
pub struct Arguments {
    /// Objects, linked files, or archives of objects
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// List the code that no call frame information covers, instead
    #[arg(long)]
    cfi: bool,
    /// List padding too
    #[arg(long)]
    padding: bool,
    /// Print one JSON object for each file, one per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    debug_file: DebugFileOption,
    #[command(flatten)]
    slice: input::Slice,
}

/// Lists the gaps of every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let Arguments { files, slice, debug_file, .. } = arguments;
    debug_file.check(files)?;
    let mut parts = Parts::from((slice, debug_file));
    if arguments.cfi {
        // All code of a member without CFI is a gap.
        parts = parts.demand(Demand::Fail);
    }
    each::for_each(files, parts, Placement::Apart, |object, _| list(object, arguments))
}

fn list(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let file = object.file()?;
    if file.as_macho().is_some() {
        bail!("a Mach-O file: an __unwind_info covers all code from its first entry on");
    }
    let covered = if arguments.cfi {
        let sections = file.call_frame_sections()?;
        if !input::describe_functions(&sections) {
            return Ok(Outcome::Absent(CALL_FRAMES));
        }
        coverage::of_cfi(&sections)?
    } else {
        let sections = object.sframe_sections(Address(0))?;
        let tables = object.tables(&sections)?;
        if tables.is_empty() {
            return Ok(Outcome::Absent(SFRAME_TABLE));
        }
        let tables = object.found_tables(&sections, tables);
        coverage::of_tables(&tables).collect::<Result<_, _>>()?
    };
    let report = Report::collect(file, &coverage::merged(covered))?;
    let status = Status::differs_if(report.gaps.iter().any(|gap| !gap.is_padding));
    let places = Places::new(file).with_names(arguments.names);
    let written = if arguments.json {
        report.print_json(object, arguments, &places)
    } else {
        report.print(object, arguments, &places)
    };
    status::judged(status, written).map(Outcome::Done)
}

/// The gaps of an object.
struct Report {
    /// The gaps, in the order of their addresses.
    gaps: Vec<ListedGap>,
    bytes: CodeBytes,
}

struct ListedGap {
    addresses: Range<Address>,
    size: u64,
    section: Rc<str>,
    is_padding: bool,
}

impl Report {
    fn collect(file: &File<'_>, covered: &[Range<Address>]) -> anyhow::Result<Self> {
        let mut list = Vec::new();
        // Many gaps of a section share its name.
        let mut section: Option<(Address, Rc<str>)> = None;
        let bytes = Gaps::new(file, covered).for_each(|gap| {
            let start = gap.section.address;
            let known = section.take().filter(|known| known.0 == start);
            let (_, name) = section.insert(known.unwrap_or_else(|| (start, Rc::from(&*gap.section.name))));
            list.push(ListedGap {
                size: gap.size(),
                section: Rc::clone(name),
                is_padding: gap.is_padding,
                addresses: gap.addresses,
            });
        })?;
        Ok(Self { gaps: list, bytes })
    }

    fn print(
        &self,
        object: &Object<'_>,
        arguments: &Arguments,
        places: &Places<'_, '_>,
    ) -> anyhow::Result<()> {
        let mut out = output::standard();
        let CodeBytes { covered, gap_bytes, padding_bytes, .. } = self.bytes;
        let (wanted, share) = (Number(self.bytes.wanted(), "byte"), code::percent(&self.bytes));
        let number = self.gaps.iter().filter(|gap| !gap.is_padding).count().to_u64();
        write!(out, "{}: {covered} of {wanted} of code covered ({share}), ", object.name)?;
        writeln!(out, "{} of {}", Number(number, "gap"), Number(gap_bytes, "byte"))?;
        for gap in self.gaps.iter().filter(|gap| arguments.padding || !gap.is_padding) {
            let place = places.range(gap.addresses.clone());
            let symbol = symbol(gap, places).in_angles();
            let kind = if gap.is_padding { ", padding" } else { "" };
            // A file without section headers has segments instead, and segments have no names.
            let section = Escaped(places.bounded(&*gap.section)).to_string();
            let section = if section.is_empty() { section } else { format!(", {section}") };
            writeln!(out, "  {place}{symbol}: {}{section}{kind}", Number(gap.size, "byte"))?;
        }
        if padding_bytes != 0 {
            writeln!(out, "  padding: {}", Number(padding_bytes, "byte"))?;
        }
        object.print_debug_file(&mut out)?;
        Ok(out.flush()?)
    }

    fn print_json(
        &self,
        object: &Object<'_>,
        arguments: &Arguments,
        places: &Places<'_, '_>,
    ) -> anyhow::Result<()> {
        let gaps = self.gaps.iter().filter(|gap| arguments.padding || !gap.is_padding);
        let gaps = gaps.map(|gap| GapJson {
            start: places.offset(gap.addresses.start).to_string(),
            size: gap.size,
            section: places.bounded(&*gap.section).into_owned(),
            symbol: symbol(gap, places),
            padding: gap.is_padding,
        });
        output::print_json(&GapsJson {
            schema: "cfipack/gaps/1",
            file: object.name.plain(),
            source: if arguments.cfi { Source::Cfi } else { Source::Table },
            debug_file: object.debug_file.map(DebugFile::json),
            code_coverage: self.bytes,
            gaps: gaps.collect(),
        })
    }
}

/// Returns the symbol of a gap. Padding belongs to no symbol.
fn symbol(gap: &ListedGap, places: &Places<'_, '_>) -> SymbolName {
    if gap.is_padding { SymbolName::default() } else { places.symbol(gap.addresses.start) }
}

/// The report, as `cfipack/gaps/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GapsJson {
    schema: &'static str,
    file: FileName,
    source: Source,
    /// The separate debug file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    debug_file: Option<DebugFileJson>,
    code_coverage: CodeBytes,
    gaps: Vec<GapJson>,
}

/// Consecutive code that no row of a table covers, or with `--cfi` no CFI.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GapJson {
    /// The address, or in a relocatable object the offset in the section.
    start: String,
    size: u64,
    section: String,
    #[serde(flatten)]
    symbol: SymbolName,
    padding: bool,
}
