//! `lookup`: prints the row for a PC.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::Placement;
use cfipack_decoder::sframe::{Function, Section};
use cfipack_format::{Address, Arch, FunctionOffset, Row};
use cfipack_roundtrip::words::Words;
use serde::Serialize;

use crate::absent::{self, SFRAME_TABLE};
use crate::io::input::{self, Input, Object};
use crate::io::output;
use crate::report::place::{Place, Places};
use crate::report::row::RowJson;
use crate::report::status::{self, Status};
use crate::report::symbol::{Names, SymbolName};
use crate::report::target::{self, Target};
use crate::verbs::unwind_info;

/// Prints the row for a PC
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status 1: an address has no row.

Examples:
  cfi2sframe lookup a.out 0x1139
  cfi2sframe lookup a.out main 'a::h(int)'+0x4       by symbols
  cfi2sframe lookup --json a.out 0x1139 0x1140 | jq .row.cfa
  cfi2sframe lookup foo.o .text.foo+0x4              in an object
  cfi2sframe lookup foo.o '.text.foo[5]+0x4'         the .text.foo with index 5 of several
  cfi2sframe lookup --address 0x2f0 table 0x1139     in a bare section, as --section writes it")]
pub struct Arguments {
    /// Object, linked file, or bare .sframe or __unwind_info section
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// PCs of the file, decimal or hexadecimal with 0x; in an object SECTION+OFFSET, or OFFSET if only one
    /// section has a function there; or symbols, mangled or as the source has them, also with +OFFSET
    #[arg(value_name = "ADDRESS", required = true, value_parser = target::parse)]
    addresses: Vec<Target>,
    /// Address of a bare .sframe section in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address: Option<Address>,
    /// Print one JSON object for each address, one per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    slice: input::Slice,
}

/// Looks up every address.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let input = Input::open(&arguments.file, &arguments.slice)?;
    let object = input.object(Placement::Apart)?;
    lookup(&object, arguments).with_context(|| object.name.to_string())
}

fn lookup(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Status> {
    object.check_address(arguments.address)?;
    let places = Places::of(object).with_names(arguments.names);
    if object.is_compact() {
        // A Mach-O object has addresses of its own.
        let address = |target: &Target| match target.plain() {
            Some(place) => Ok(place.offset),
            None => target.find(&places),
        };
        let addresses: Vec<_> = arguments.addresses.iter().map(address).collect::<Result<_, _>>()?;
        return unwind_info::lookup::lookup(object, &places, &addresses, arguments.json);
    }
    let sections = object.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables = object.tables(&sections)?;
    if tables.is_empty() {
        return Err(absent::from_object(object, SFRAME_TABLE));
    }
    let mut out = output::standard();
    let mut status = Status::Done;
    for target in &arguments.addresses {
        let pc = match target.plain().filter(|_| object.is_relocatable()) {
            Some(place) => in_one_section(&tables, &places, place)?,
            None => Some(target.find(&places)?),
        };
        let answer =
            pc.map_or(Ok(None), |pc| Answer::find(&tables, pc)).with_context(|| format!("pc {target}"))?;
        status = status.max(Status::differs_if(answer.as_ref().is_none_or(|answer| answer.row.is_none())));
        if arguments.json {
            output::json(&mut out, &AnswerJson::new((pc, target), answer.as_ref(), &places, object))?;
        } else {
            let pc = pc.map_or_else(|| target.to_string(), |pc| places.name(pc));
            writeln!(out, "{pc}: {}", words(answer.as_ref(), &places))?;
        }
    }
    status::judged(status, out.flush().map_err(Into::into))
}

/// The address of an offset given without a section, if exactly one section has a function there.
fn in_one_section(
    tables: &[Section<'_>],
    places: &Places<'_, '_>,
    place: &Place,
) -> anyhow::Result<Option<Address>> {
    let mut found = BTreeMap::new();
    for function in tables.iter().flat_map(Section::functions) {
        // A function that cannot be read has no known offsets.
        let Ok(function) = function else { continue };
        let Some((section, start)) = places.in_object(function.start()) else { continue };
        let offset = place.offset.distance_from(start);
        if (0..i64::from(function.size())).contains(&offset) {
            found.insert(section, function.start().offset(offset));
        }
    }
    if found.len() > 1 {
        let sections: Vec<_> = found.keys().map(|section| format!("{section}+{place}")).collect();
        bail!("several sections have a function at {place}, choose one: {}", sections.join(", "));
    }
    Ok(found.into_values().next())
}

/// A table's row for a PC.
struct Answer<'a> {
    arch: Arch,
    function: Function<'a>,
    row: Option<Row>,
}

impl<'a> Answer<'a> {
    /// The row of the first table that contains the PC, if one does.
    fn find(tables: &[Section<'a>], pc: Address) -> anyhow::Result<Option<Self>> {
        for table in tables {
            let Some(function) = table.find(pc)? else { continue };
            let offset = pc.distance_from(function.start());
            // The function contains the PC, and its size is 32 bits wide.
            let row = function.lookup(FunctionOffset(offset as u32))?;
            return Ok(Some(Self { arch: table.arch(), function, row }));
        }
        Ok(None)
    }
}

/// An answer as text.
fn words(answer: Option<&Answer<'_>>, places: &Places<'_, '_>) -> String {
    let Some(Answer { arch, function, row, .. }) = answer else { return "no function".to_string() };
    let end = function.start().offset(function.size().into());
    let repeats = match function.is_pc_mask() {
        true => format!(", repeating every {} bytes", function.rep_size()),
        false => String::new(),
    };
    let signal_frame = if function.is_signal_frame() { ", signal frame" } else { "" };
    let row = match row {
        Some(row) => format!("row +{}: {}", row.start, Words(*arch, *row)),
        None => "no row".to_string(),
    };
    format!("function {}{repeats}{signal_frame}, {row}", places.range(function.start()..end))
}

/// The row for a PC; `function` and `row` are null where no table has one. In an object,
/// `pc` and the function's `start` are offsets in `section`, which is null in other files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "SframeAnswer"))]
pub struct AnswerJson {
    schema: &'static str,
    file: String,
    section: Option<String>,
    pc: String,
    #[serde(flatten)]
    symbol: SymbolName,
    function: Option<Extent>,
    row: Option<RowJson>,
    words: Option<String>,
}

/// A function of a table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Function"))]
struct Extent {
    start: String,
    size: u32,
    signal_frame: bool,
    repeats: Option<u16>,
}

impl AnswerJson {
    fn new(
        (pc, target): (Option<Address>, &Target),
        answer: Option<&Answer<'_>>,
        places: &Places<'_, '_>,
        object: &Object<'_>,
    ) -> Self {
        let in_section = pc.and_then(|pc| places.in_object(pc));
        let row = answer.and_then(|answer| Some((answer.arch, answer.row?)));
        Self {
            schema: "cfipack/lookup/1",
            file: object.name.plain(),
            section: in_section.map(|(section, _)| section),
            pc: pc.map_or_else(|| target.to_string(), |pc| places.offset(pc).to_string()),
            symbol: pc.map(|pc| places.symbol(pc)).unwrap_or_default(),
            function: answer.map(|Answer { function, .. }| Extent {
                start: places.offset(function.start()).to_string(),
                size: function.size(),
                signal_frame: function.is_signal_frame(),
                repeats: function.is_pc_mask().then(|| function.rep_size()),
            }),
            row: row.map(|(arch, row)| RowJson::new(arch, &row)),
            words: row.map(|(arch, row)| Words(arch, row).to_string()),
        }
    }
}
