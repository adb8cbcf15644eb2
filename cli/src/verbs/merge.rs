//! `merge`: merges several tables.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::{Kind, Placement, Section as FileSection};
use cfipack_decoder::sframe;
use cfipack_edit::with_section;
use cfipack_encoder::sframe::Options;
use cfipack_format::sframe::Version;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Key};
use cfipack_linker::linked::{Merged, Tables};
use serde::Serialize;

use crate::io::check;
use crate::io::input::{self, Contents, Input, Object};
use crate::io::output;
use crate::io::values;
use crate::report::count::{Counts, Number};
use crate::report::escaped::FileName;
use crate::report::reasons;
use crate::report::status::{self, Status};
use crate::table_options::parse_version;

/// Merges several .sframe tables into one sorted table
#[derive(clap::Args, Debug)]
#[command(after_help = "\
lld and old versions of mold leave the tables of their inputs one after the other in one
section, and readers see only the first. Addresses are taken as they stand, in all files.
Functions outside of a file's code, which linkers leave of what they discard, are dead, and left out;
of equal functions of several tables, one is written. With neither -o nor --section
there is only the summary, on standard error.

Examples:
  cfi2sframe merge a.out -o a.merged         one table in the place of those that lld left
  cfi2sframe merge a.out --section table     its bytes, for where a.out has its section
  cfi2sframe merge one two --address 0x2f0 --address 0x9000 --section table")]
pub struct Arguments {
    /// Linked files, or bare .sframe sections
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the one FILE with the merged table in place of its own, if that has room for it
    #[arg(short, long, value_name = "OUT", conflicts_with_all = ["section", "place"])]
    output: Option<PathBuf>,
    /// Write the merged table's bytes; - is standard output
    #[arg(long, value_name = "FILE")]
    section: Option<PathBuf>,
    /// Where the bytes of --section will lie in memory [default: where the first table does]
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    place: Option<Address>,
    /// Where a bare .sframe section lies in memory; of several, once for each, in order [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    address: Vec<Address>,
    /// Version of the merged table: 2 or 3 [default: the highest of the inputs, but not 1]
    #[arg(long, value_name = "N", value_parser = parse_version)]
    sframe_version: Option<Version>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    slice: input::Slice,
}

/// Merges all tables of all files.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    check(arguments)?;
    let inputs: Vec<_> =
        arguments.files.iter().map(|path| Input::open(path, &arguments.slice)).collect::<Result<_, _>>()?;
    let objects: Vec<_> =
        inputs.iter().map(|input| input.object(Placement::Apart)).collect::<Result<_, _>>()?;
    let mut bare = arguments.address.iter();
    let read = |object| Source::read(object, &mut bare).with_context(|| object.name.to_string());
    let sources: Vec<_> = objects.iter().map(read).collect::<Result<_, _>>()?;
    if bare.next().is_some() {
        bail!("--address: there are fewer bare .sframe sections than addresses");
    }
    let (report, bytes) = merge(&sources, arguments)?;
    if let Some(path) = &arguments.section {
        output::binary(path, &bytes)?;
    }
    if let Some(path) = &arguments.output {
        let in_place = in_place(&objects[0], &sources[0], &bytes);
        output::binary(path, &in_place.with_context(|| objects[0].name.to_string())?)?;
    }
    let written = if arguments.json { output::print_json(&report) } else { report.print() };
    status::judged(Status::Done, written)
}

fn check(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.place.is_some() && arguments.section.is_none() {
        bail!("--place: without --section no bytes are written");
    }
    if arguments.output.is_some() && arguments.files.len() > 1 {
        bail!("-o: of several files no one has room for all tables: write them with --section");
    }
    for (option, path) in [("--section", &arguments.section), ("-o", &arguments.output)] {
        if let Some(path) = path {
            check::written(option, path, &arguments.files, arguments.json, "")?;
        }
    }
    Ok(())
}

/// A file's tables.
struct Source<'a> {
    name: FileName,
    sections: Vec<FileSection<'a>>,
    /// The ranges of the file's code, or `None` for a bare section.
    code: Option<Vec<Range<Address>>>,
}

impl<'a> Source<'a> {
    fn read(object: &Object<'a>, bare: &mut std::slice::Iter<'_, Address>) -> anyhow::Result<Self> {
        let (address, code) = match &object.contents {
            Contents::Table(_) => (bare.next().copied().unwrap_or_default(), None),
            Contents::File(file) if file.as_macho().is_some() => {
                bail!("a Mach-O file: .sframe is for ELF files")
            }
            Contents::File(file) if file.kind() == Kind::Relocatable => {
                bail!("a relocatable object, whose table has no addresses: a linker merges it")
            }
            Contents::File(file) => {
                let sections = file.code_sections()?;
                let code =
                    sections.iter().map(|code| code.address..code.address.offset(code.bytes.len() as i64));
                (Address(0), Some(code.collect()))
            }
            Contents::UnwindInfo(_) => bail!("this is an __unwind_info section, of which a file has one"),
        };
        let sections = object.sframe_sections(address)?;
        Ok(Self { name: object.name.plain(), sections, code })
    }

    /// Returns whether the file has code at an address. A bare section may have code at any address.
    fn has_code(&self, address: Address) -> bool {
        self.code.as_ref().is_none_or(|code| code.iter().any(|range| range.contains(&address)))
    }
}

/// Returns the file with the merged table in place of its own table.
fn in_place(object: &Object<'_>, source: &Source<'_>, table: &[u8]) -> anyhow::Result<Vec<u8>> {
    let file = object.file()?;
    let [section] = &source.sections[..] else {
        bail!("-o: there are {} .sframe sections in it, not one: use --section", source.sections.len());
    };
    let room = section.bytes.len();
    let index = section.index.context("-o: the file has no section headers: use --section")?;
    let replaced = with_section(file, index, table)?;
    replaced.with_context(|| {
        let (name, size) = (&section.name, table.len());
        format!("-o: section {name} has {room} bytes, the merged table {size}: use --section, or --sframe-version 2")
    })
}

/// Returns the names of the inputs.
fn names(sources: &[Source<'_>]) -> String {
    let names: Vec<_> = sources.iter().map(|source| source.name.to_string()).collect();
    names.join(", ")
}

/// Merges the tables of all sources. Returns the report, and the bytes of the merged table.
fn merge(sources: &[Source<'_>], arguments: &Arguments) -> anyhow::Result<(MergeReport, Vec<u8>)> {
    let mut tables = Vec::new();
    for source in sources {
        for section in &source.sections {
            let found = input::tables(section).with_context(|| source.name.to_string())?;
            tables.extend(found.into_iter().map(|table| (source, table)));
        }
    }
    let Some((_, first)) = tables.first() else {
        bail!("{}: there is no .sframe table in the input", names(sources))
    };
    let address = arguments.place.unwrap_or_else(|| first.address());
    let highest = tables.iter().map(|(_, table)| table.version()).max();
    let highest = highest.map_or(Version::DEFAULT, Version::writable);
    let version = arguments.sframe_version.unwrap_or(highest);
    let mut merged = Tables::new(first.arch(), Options::new().with_version(version))?;
    let (mut inputs, mut omitted) = (Vec::new(), Vec::new());
    for (source, table) in &tables {
        let pushed =
            merged.push(table, |function| source.has_code(function.start()), |reason| omitted.push(reason));
        let pushed = pushed.with_context(|| format!("{}: table at {}", source.name, table.address()))?;
        inputs.push(InputJson::new(source, table, pushed));
    }
    let mut section = merged.finish();
    section.omit_distant(address, Key::address);
    omitted.extend_from_slice(section.omitted());
    let mut bytes = vec![0; section.len()];
    section.write(&mut bytes, address, Key::address)?;
    let report = MergeReport {
        schema: "cfipack/merge/1",
        inputs,
        address,
        version: version as u8,
        bytes: bytes.len().to_u64(),
        functions: section.num_fdes().to_u64(),
        omitted: omitted.len().to_u64(),
        reasons: reasons::count(&omitted, 0),
    };
    Ok((report, bytes))
}

/// The report, as `cfipack/merge/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MergeReport {
    schema: &'static str,
    inputs: Vec<InputJson>,
    address: Address,
    version: u8,
    bytes: u64,
    /// The number of entries of the merged table.
    functions: u64,
    omitted: u64,
    reasons: BTreeMap<&'static str, u64>,
}

impl MergeReport {
    /// Writes the report to standard error, in a single write.
    fn print(&self) -> anyhow::Result<()> {
        let mut text = Vec::new();
        for input in &self.inputs {
            let InputJson { file, address, version, bytes, merged } = input;
            let Merged { functions, rows, dead, .. } = merged;
            write!(text, "{file}: table at {address}, version {version}: {}, ", Number(*bytes, "byte"))?;
            writeln!(
                text,
                "{}, {}{}",
                Number(*functions, "function"),
                Number(*rows, "row"),
                Counts(&[("dead, outside of the code", *dead)])
            )?;
        }
        let all = self.inputs.iter().map(|input| input.bytes).sum();
        let Self { bytes, address, version, functions, .. } = self;
        write!(text, "merged: table at {address}, version {version}: {bytes} of ")?;
        writeln!(text, "{}, {}", Number(all, "byte"), Number(*functions, "function"))?;
        reasons::print(&mut text, "omitted", &self.reasons)?;
        Ok(std::io::stderr().write_all(&text)?)
    }
}

/// A table of the input.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InputJson {
    file: FileName,
    address: Address,
    version: u8,
    bytes: u64,
    /// `dead` functions lie outside of the file's code.
    #[serde(flatten)]
    merged: Merged,
}

impl InputJson {
    fn new(source: &Source<'_>, table: &sframe::Section<'_>, merged: Merged) -> Self {
        Self {
            file: source.name.clone(),
            address: table.address(),
            version: table.header().version,
            bytes: table.len().to_u64(),
            merged,
        }
    }
}
