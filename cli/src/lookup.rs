//! `lookup`: the row that answers for a PC.

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::Layout;
use cfipack_decoder::sframe::{Function, Section};
use cfipack_format::{Address, Arch, FunctionOffset, Row};
use cfipack_roundtrip::words::Words;
use serde::Serialize;

use crate::input::{self, Input};
use crate::output;
use crate::row::RowJson;
use crate::status::{self, Status};
use crate::unwind_info;

/// Prints the row that answers for a PC, in words
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit status 1: an address has no row.

Examples:
  cfi2sframe lookup a.out 0x1139
  cfi2sframe lookup --json a.out 0x1139 0x1140 | jq .row.cfa
  cfi2sframe lookup --address 0x2f0 table 0x1139     in a bare section, as --section writes it")]
pub struct Arguments {
    /// An object, a linked file, or a bare .sframe section
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// PCs as the file has them, decimal or behind 0x hexadecimal; in an object, offsets in its code section
    #[arg(value_name = "ADDRESS", required = true, value_parser = input::parse_address)]
    addresses: Vec<Address>,
    /// Where a bare .sframe section lies in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address: Option<Address>,
    /// One JSON object for each address, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    slice: input::Slice,
}

/// Looks up every address.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let input = Input::open(&arguments.file, &arguments.slice)?;
    let object = input.object(Layout::Zero)?;
    let name = || object.name.to_string();
    object.check_address(arguments.address).with_context(name)?;
    if object.is_compact() {
        return unwind_info::lookup::lookup(&object, &arguments.addresses, arguments.json).with_context(name);
    }
    let sections = object.sframe_sections(arguments.address.unwrap_or_default()).with_context(name)?;
    let tables: Vec<_> = sections.iter().map(input::tables).collect::<Result<_, _>>().with_context(name)?;
    let tables = tables.concat();
    if tables.is_empty() {
        bail!("{}: there is no .sframe table in it", object.name);
    }
    let mut out = output::standard();
    let mut status = Status::Done;
    for &pc in &arguments.addresses {
        let answer = Answer::find(&tables, pc).with_context(|| format!("{}: pc {pc}", object.name))?;
        status = status.max(Status::differs_if(answer.row.is_none()));
        if arguments.json {
            output::json(&mut out, &AnswerJson::new(&answer, &object.name.plain()))?;
        } else {
            writeln!(out, "{answer}")?;
        }
    }
    status::judged(status, out.flush().map_err(Into::into))
}

/// What the tables say about a PC.
struct Answer<'a> {
    pc: Address,
    arch: Arch,
    function: Option<Function<'a>>,
    row: Option<Row>,
}

impl<'a> Answer<'a> {
    fn find(tables: &[Section<'a>], pc: Address) -> anyhow::Result<Self> {
        let mut answer = Self { pc, arch: Arch::Amd64, function: None, row: None };
        for table in tables {
            let Some(function) = table.find(pc)? else { continue };
            let offset = pc.distance_from(function.start());
            // The function has the PC, and its size is 32 bits wide.
            let row = function.lookup(FunctionOffset(offset as u32))?;
            answer = Self { pc, arch: table.arch(), function: Some(function), row };
            break;
        }
        Ok(answer)
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.pc)?;
        let Some(function) = &self.function else { return f.write_str("no function") };
        let end = function.start().offset(function.size().into());
        write!(f, "function {}..{end}", function.start())?;
        if function.is_pc_mask() {
            write!(f, ", repeating every {} bytes", function.rep_size())?;
        }
        if function.is_signal_frame() {
            f.write_str(", signal frame")?;
        }
        match self.row {
            Some(row) => write!(f, ", row +{}: {}", row.start, Words(self.arch, row)),
            None => f.write_str(", no row"),
        }
    }
}

/// What the tables say about a PC; `function` and `row` are null where they say nothing.
#[derive(Serialize)]
struct AnswerJson<'a> {
    schema: &'static str,
    file: &'a str,
    pc: String,
    function: Option<Extent>,
    row: Option<RowJson>,
    words: Option<String>,
}

#[derive(Serialize)]
struct Extent {
    start: String,
    size: u32,
    signal_frame: bool,
    repeats: Option<u8>,
}

impl<'a> AnswerJson<'a> {
    fn new(answer: &Answer<'_>, file: &'a str) -> Self {
        Self {
            schema: "cfipack/lookup/1",
            file,
            pc: answer.pc.to_string(),
            function: answer.function.map(|function| Extent {
                start: function.start().to_string(),
                size: function.size(),
                signal_frame: function.is_signal_frame(),
                repeats: function.is_pc_mask().then(|| function.rep_size()),
            }),
            row: answer.row.map(|row| RowJson::new(answer.arch, &row)),
            words: answer.row.map(|row| Words(answer.arch, row).to_string()),
        }
    }
}
