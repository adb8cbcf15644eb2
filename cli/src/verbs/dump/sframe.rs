//! `dump` of `.sframe`, as readelf prints it.

use std::io::Write as _;
use std::slice;

use anyhow::Context as _;
use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::Arch;
use cfipack_format::sframe::{FdeType, Header};
use serde::{Serialize, Serializer};

use super::Arguments;
use crate::io::absent::SFRAME_TABLE;
use crate::io::each::Outcome;
use crate::io::input::{self, Object};
use crate::io::output::{self, from_fn};
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::row::RowJson;
use crate::report::status::Status;
use crate::report::symbol::SymbolName;

/// Dumps the tables of an object. If a part cannot be read, prints an error in its place, and returns the error after
/// the rest is printed.
pub fn dump(object: &Object<'_>, several: bool, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let sections = object.sframe_sections(arguments.address.unwrap_or_default())?;
    let mut out = output::standard();
    let (mut found, mut broken) = (false, None);
    let places = Places::of_object(object).with_names(arguments.names);
    for section in &sections {
        if arguments.json {
            for table in object.tables(slice::from_ref(section))? {
                found = true;
                output::json(&mut out, &TableJson::new(object, &section.name, table, &places))?;
                broken = broken.or_else(|| Some((first_error(&table)?, section.name.to_string())));
            }
            continue;
        }
        // As in readelf, the text of a table depends on its header and not on relocations.
        for table in input::tables(section)? {
            if several && !found {
                writeln!(out, "\nFile: {}", object.name)?;
            }
            found = true;
            write!(out, "{}", from_fn(|f| table.dump(f, &section.name)))?;
            broken = broken.or_else(|| Some((first_error(&table)?, section.name.to_string())));
        }
    }
    if !found {
        return Ok(Outcome::Absent(SFRAME_TABLE));
    }
    out.flush()?;
    match broken {
        Some((error, section)) => Err(error).with_context(|| format!("section {section}")),
        None => Ok(Outcome::Done(Status::Done)),
    }
}

/// Returns the error of the first function that cannot be read. Otherwise, returns an error if the header has a wrong
/// number of FREs.
fn first_error(table: &Section<'_>) -> Option<sframe::Error> {
    let mut sum = 0;
    for function in table.functions() {
        match function {
            Ok(function) => {
                sum += u64::from(function.num_fres());
                if let Some(error) = function.rows().find_map(Result::err) {
                    return Some(error);
                }
            }
            Err(error) => return Some(error),
        }
    }
    let value = table.header().num_fres;
    (sum != u64::from(value)).then_some(sframe::Error::NumFres { value, sum })
}

/// A table, as `cfipack/dump/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SframeTable"))]
pub struct TableJson<'a> {
    schema: &'static str,
    file: FileName,
    section: &'a str,
    address: String,
    #[serde(flatten)]
    header: Header,
    #[cfg_attr(test, schemars(with = "Vec<Entry>"))]
    functions: Functions<'a>,
}

impl<'a> TableJson<'a> {
    fn new(object: &Object<'_>, section: &'a str, table: Section<'a>, places: &'a Places<'a, 'a>) -> Self {
        Self {
            schema: "cfipack/dump/1",
            file: object.name.plain(),
            section,
            address: places.offset(table.address()).to_string(),
            header: *table.header(),
            functions: Functions(table, places),
        }
    }
}

/// Writes the functions of a table without collecting them first, because a table can have hundreds of thousands.
struct Functions<'a>(Section<'a>, &'a Places<'a, 'a>);

impl Serialize for Functions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let arch = self.0.arch();
        serializer.collect_seq(self.0.functions().enumerate().map(|(index, function)| match function {
            Ok(function) => Entry::Function(FunctionJson::new(arch, &function, self.1)),
            Err(error) => Entry::Error { index, error: error.to_string() },
        }))
    }
}

/// A function, or the reason why it cannot be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "FunctionOrError"))]
#[serde(untagged)]
enum Entry {
    Function(FunctionJson),
    Error { index: usize, error: String },
}

/// A function. `repeats` is the size of a PLT's stub, after which the rows apply again. In an object, `start` is an
/// offset in `section`, which is null in other files. `symbol` is a symbol at the function's start.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FunctionJson {
    index: usize,
    section: Option<String>,
    #[serde(flatten)]
    symbol: SymbolName,
    start: String,
    size: u32,
    /// The width of a row's start in bytes.
    start_width: usize,
    #[serde(rename = "type")]
    fde_type: &'static str,
    signal_frame: bool,
    pauth_key: Option<char>,
    repeats: Option<u16>,
    rows: Vec<RowEntry>,
}

/// A row, or the reason why this row and all rows after it cannot be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "RowOrError"))]
#[serde(untagged)]
pub enum RowEntry {
    Row(RowJson),
    Error { error: String },
}

impl FunctionJson {
    fn new(arch: Arch, function: &Function<'_>, places: &Places<'_, '_>) -> Self {
        let rows = function.rows().map(|row| match row {
            Ok(row) => RowEntry::Row(RowJson::new(arch, &row)),
            Err(error) => RowEntry::Error { error: error.to_string() },
        });
        Self {
            index: function.index(),
            section: places.in_object(function.start()).map(|(section, _)| section),
            symbol: places.symbol_at(function.start()),
            start: places.offset(function.start()).to_string(),
            size: function.size(),
            start_width: function.fre_type().width(),
            fde_type: if function.fde_type() == FdeType::Flex { "flex" } else { "default" },
            signal_frame: function.is_signal_frame(),
            pauth_key: arch.is_aarch64().then_some(if function.has_pauth_key_b() { 'B' } else { 'A' }),
            repeats: function.is_pc_mask().then(|| function.rep_size()),
            rows: rows.collect(),
        }
    }
}
