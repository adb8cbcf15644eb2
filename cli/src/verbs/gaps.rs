//! `gaps`: code that no row covers.

use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::bail;
use cfipack_cfi::Functions;
use cfipack_container::{CallFrameSection, File, Placement, Section as FileSection, Symbols};
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch};
use serde::Serialize;

use crate::io::each::{self, Outcome};
use crate::io::input::{self, CALL_FRAMES, Object};
use crate::io::output;
use crate::padding::is_padding;
use crate::report::count::{Number, percent};
use crate::report::escaped::Escaped;
use crate::report::place::Places;
use crate::report::status::{self, Status};

/// Lists the code that no row of the table covers
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Code is what lies in executable sections. A gap ends where a symbol starts, so that each
has a name. What consists of nops, traps or zeros alone is padding, which is counted and
not listed.

Exit status 1: there is a gap.

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
    slice: input::Slice,
}

/// Lists the gaps of every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    each::for_each(&arguments.files, &arguments.slice, Placement::Apart, |object, _| list(object, arguments))
}

fn list(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let file = object.file()?;
    if file.is_mach_o() {
        bail!("a Mach-O file: an __unwind_info covers all code from its first entry on");
    }
    let covered = if arguments.cfi {
        let sections = file.call_frame_sections()?;
        if !input::describe_functions(&sections) {
            return Ok(Outcome::Absent(CALL_FRAMES));
        }
        of_cfi(&sections)?
    } else {
        let sections = object.sframe_sections(Address(0))?;
        let tables = object.tables(&sections)?;
        if tables.is_empty() {
            return Ok(Outcome::Absent(".sframe table"));
        }
        of_tables(&tables)?
    };
    let gaps = Gaps::of(file, &merged(covered))?;
    let status = Status::differs_if(gaps.list.iter().any(|gap| !gap.is_padding));
    let places = Places::new(file);
    let written = match arguments.json {
        true => gaps.print_json(object, arguments, &places),
        false => gaps.print(object, arguments, &places),
    };
    status::judged(status, written).map(Outcome::Done)
}

/// What the rows of tables answer for.
fn of_tables(tables: &[Section<'_>]) -> anyhow::Result<Vec<Range<Address>>> {
    let mut covered = Vec::new();
    for function in tables.iter().flat_map(Section::functions) {
        let function = function?;
        // Before a function's first row there is none.
        if let Some(first) = function.rows().next().transpose()? {
            let end = function.start().offset(function.size().into());
            covered.push(function.start().offset(first.start.0.into())..end);
        }
    }
    Ok(covered)
}

/// What the functions of call frame information answer for, without those that are of no function.
fn of_cfi(sections: &[CallFrameSection<'_>]) -> anyhow::Result<Vec<Range<Address>>> {
    let mut covered = Vec::new();
    for section in sections {
        for function in Functions::new(&section.cfi()) {
            let function = function?;
            let start = function.key.address();
            covered.push(start..Address(start.0.saturating_add(function.size)));
        }
    }
    Ok(covered)
}

/// The same addresses in ascending ranges, none of which touch.
fn merged(mut ranges: Vec<Range<Address>>) -> Vec<Range<Address>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<Address>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// The code of a file that is not covered.
struct Gaps {
    /// By address.
    list: Vec<Gap>,
    /// Bytes of code.
    code: u64,
}

/// Code in a row that is not covered, and that belongs to one symbol, or to none.
struct Gap {
    addresses: Range<Address>,
    section: Rc<str>,
    is_padding: bool,
}

impl Gap {
    fn size(&self) -> u64 {
        self.addresses.end.0 - self.addresses.start.0
    }
}

impl Gaps {
    fn of(file: &File<'_>, covered: &[Range<Address>]) -> anyhow::Result<Self> {
        let symbols = file.symbols()?;
        let mut sections = file.code_sections()?;
        sections.sort_by_key(|section| section.address);
        let mut gaps = Self { list: Vec::new(), code: 0 };
        for section in &sections {
            gaps.code += section.bytes.len() as u64;
            gaps.add(file.arch(), section, covered, &symbols);
        }
        Ok(gaps)
    }

    /// Adds those of a section.
    fn add(
        &mut self,
        arch: Arch,
        section: &FileSection<'_>,
        covered: &[Range<Address>],
        symbols: &Symbols<'_>,
    ) {
        let end = section.address.offset(section.bytes.len() as i64);
        let mut at = section.address;
        let first = covered.partition_point(|range| range.end <= at);
        let inside = covered[first..].iter().take_while(|range| range.start < end);
        for next in inside.cloned().chain([end..end]) {
            if at < next.start {
                self.add_gap(arch, section, at..next.start, symbols);
            }
            at = next.end;
        }
    }

    /// Adds the pieces of a gap: up to each symbol, and up to the end of a symbol's code if padding follows.
    fn add_gap(&mut self, arch: Arch, section: &FileSection<'_>, gap: Range<Address>, symbols: &Symbols<'_>) {
        let code = |range: &Range<Address>| {
            let offset = |address: Address| (address.0 - section.address.0) as usize;
            &section.bytes[offset(range.start)..offset(range.end)]
        };
        let (mut at, name) = (gap.start, Rc::from(&*section.name));
        while at < gap.end {
            let next = symbols.next_after(at).map_or(gap.end, |next| next.min(gap.end));
            let extent = symbols.extent(at).map_or(next, |extent| extent.end.min(next));
            // Padding after the symbol's code is none of it; other code there has no name of its own.
            let middle = if is_padding(arch, code(&(extent..next))) { extent } else { next };
            for piece in [at..middle, middle..next] {
                if piece.start < piece.end {
                    let (is_padding, section) = (is_padding(arch, code(&piece)), Rc::clone(&name));
                    self.list.push(Gap { addresses: piece, section, is_padding });
                }
            }
            at = next;
        }
    }

    /// Bytes of the gaps that are padding, or are not.
    fn bytes(&self, is_padding: bool) -> u64 {
        self.list.iter().filter(|gap| gap.is_padding == is_padding).map(Gap::size).sum()
    }

    fn print(
        &self,
        object: &Object<'_>,
        arguments: &Arguments,
        places: &Places<'_, '_>,
    ) -> anyhow::Result<()> {
        let mut out = output::standard();
        let (gaps, padding) = (self.bytes(false), self.bytes(true));
        let covered = self.code - gaps - padding;
        let share = percent(covered, self.code - padding);
        let number = self.list.iter().filter(|gap| !gap.is_padding).count() as u64;
        write!(out, "{}: {} of {} of code", object.name, covered, Number(self.code - padding, "byte"))?;
        writeln!(out, " covered ({share}), {} of {}", Number(number, "gap"), Number(gaps, "byte"))?;
        for gap in self.list.iter().filter(|gap| arguments.padding || !gap.is_padding) {
            let place = places.range(gap.addresses.clone());
            let symbol = if gap.is_padding { None } else { places.symbol(gap.addresses.start) };
            let symbol = symbol.map(|symbol| format!(" <{}>", Escaped(symbol))).unwrap_or_default();
            let kind = if gap.is_padding { ", padding" } else { "" };
            // Of a file without section headers segments are listed.
            let section = Escaped(places.bounded(&*gap.section)).to_string();
            let section = if section.is_empty() { section } else { format!(", {section}") };
            writeln!(out, "  {place}{symbol}: {}{section}{kind}", Number(gap.size(), "byte"))?;
        }
        if padding != 0 {
            writeln!(out, "  padding: {}", Number(padding, "byte"))?;
        }
        Ok(out.flush()?)
    }

    fn print_json(
        &self,
        object: &Object<'_>,
        arguments: &Arguments,
        places: &Places<'_, '_>,
    ) -> anyhow::Result<()> {
        let gaps = self.list.iter().filter(|gap| arguments.padding || !gap.is_padding);
        let gaps = gaps.map(|gap| GapJson {
            start: places.offset(gap.addresses.start).to_string(),
            size: gap.size(),
            section: places.bounded(&*gap.section).into_owned(),
            symbol: places.symbol(gap.addresses.start).filter(|_| !gap.is_padding),
            padding: gap.is_padding,
        });
        let (gap_bytes, padding) = (self.bytes(false), self.bytes(true));
        let report = GapsJson {
            schema: "cfipack/gaps/1",
            file: object.name.plain(),
            source: if arguments.cfi { "cfi" } else { "table" },
            code: self.code,
            covered: self.code - gap_bytes - padding,
            gap_bytes,
            padding_bytes: padding,
            gaps: gaps.collect(),
        };
        let mut out = output::standard();
        output::json(&mut out, &report)?;
        Ok(out.flush()?)
    }
}

/// The report, as `cfipack/gaps/1`.
#[derive(Serialize)]
struct GapsJson {
    schema: &'static str,
    file: String,
    /// `table` or `cfi`.
    source: &'static str,
    /// Bytes in executable sections: those of the next three together.
    code: u64,
    covered: u64,
    gap_bytes: u64,
    padding_bytes: u64,
    gaps: Vec<GapJson>,
}

#[derive(Serialize)]
struct GapJson {
    /// The address; in a relocatable object the offset in the section.
    start: String,
    size: u64,
    section: String,
    symbol: Option<String>,
    padding: bool,
}
