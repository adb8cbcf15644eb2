//! `dump --symbols`: prints functions by their symbols, and rows by offsets from the function's start. You can keep the
//! text as a golden: it is equal for tables that mean the same, at any address and in any layout.

use std::cell::Cell;
use std::io::{self, Write};

use anyhow::Context as _;
use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::{Arch, FunctionOffset, Row};
use cfipack_roundtrip::words::Words;
use serde::{Serialize, Serializer};

use super::Arguments;
use super::sframe::RowEntry;
use crate::io::absent::SFRAME_TABLE;
use crate::io::each::Outcome;
use crate::io::input::Object;
use crate::io::output;
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::row::RowJson;
use crate::report::status::Status;

/// Prints the functions of every table of an object, in the table's order. If a part cannot be read, the error is
/// returned after the rest is printed.
pub fn dump(object: &Object<'_>, several: bool, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let sections = object.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables = object.tables(&sections)?;
    if tables.is_empty() {
        return Ok(Outcome::Absent(SFRAME_TABLE));
    }
    let mut out = output::standard();
    if several && !arguments.json {
        writeln!(out, "\nFile: {}", object.name)?;
    }
    let places = Places::of_object(object).with_names(arguments.names);
    let mut broken = None;
    for table in &tables {
        let error = if arguments.json {
            print_json(&mut out, object, table, &places)?
        } else {
            print_table(&mut out, table, &places)?
        };
        broken = broken.or(error);
    }
    out.flush()?;
    match broken {
        Some(error) => Err(error).context("section .sframe"),
        None => Ok(Outcome::Done(Status::Done)),
    }
}

/// Prints a table. Returns the table's first error.
fn print_table(
    out: &mut impl Write,
    table: &Section<'_>,
    places: &Places<'_, '_>,
) -> io::Result<Option<sframe::Error>> {
    let mut broken = None;
    for function in table.functions() {
        let error = match function {
            Ok(function) => print_function(out, table.arch(), &function, places)?,
            Err(error) => Some(error),
        };
        broken = broken.or(error);
    }
    Ok(broken)
}

/// Prints a function and each row that differs from the row before it. Returns the first error.
fn print_function(
    out: &mut impl Write,
    arch: Arch,
    function: &Function<'_>,
    places: &Places<'_, '_>,
) -> io::Result<Option<sframe::Error>> {
    write!(out, "{}: {} bytes", places.independent(function.start()), function.size())?;
    if function.is_pc_mask() {
        write!(out, ", repeating every {} bytes", function.rep_size())?;
    }
    writeln!(out, "{}", if function.is_signal_frame() { ", signal frame" } else { "" })?;
    for row in different_rows(function) {
        match row {
            Ok(row) => writeln!(out, "  +{}: {}", row.start, Words(arch, row))?,
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

/// Returns the rows of a function that differ from the row before them.
fn different_rows(function: &Function<'_>) -> impl Iterator<Item = Result<Row, sframe::Error>> {
    let mut last = None;
    function.rows().filter(move |row| {
        let meaning = row.as_ref().ok().map(|row| Row { start: FunctionOffset(0), ..*row });
        meaning.is_none() || last.replace(meaning) != Some(meaning)
    })
}

/// Prints a table as JSON. Returns the table's first error.
fn print_json(
    out: &mut impl Write,
    object: &Object<'_>,
    table: &Section<'_>,
    places: &Places<'_, '_>,
) -> anyhow::Result<Option<sframe::Error>> {
    let broken = Cell::new(None);
    let functions = Functions { table, places, broken: &broken };
    output::json(
        out,
        &SymbolsJson { schema: "cfipack/dump-symbols/1", file: object.name.plain(), functions },
    )?;
    Ok(broken.get())
}

/// A table by symbols, as `cfipack/dump-symbols/1`. It depends neither on addresses nor on how the table encodes rows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SymbolsJson<'r, 'f, 'a> {
    schema: &'static str,
    file: FileName,
    #[cfg_attr(test, schemars(with = "Vec<Named>"))]
    functions: Functions<'r, 'f, 'a>,
}

/// Writes the functions of a table without collecting them first.
struct Functions<'r, 'f, 'a> {
    table: &'r Section<'r>,
    places: &'r Places<'f, 'a>,
    /// The first error.
    broken: &'r Cell<Option<sframe::Error>>,
}

impl Serialize for Functions<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.table.functions().map(|function| match function {
            Ok(function) => Named::Function(self.function(&function)),
            Err(error) => Named::Error { error: self.note(error) },
        }))
    }
}

impl Functions<'_, '_, '_> {
    fn function(&self, function: &Function<'_>) -> NamedFunction {
        let rows = different_rows(function).map(|row| match row {
            Ok(row) => RowEntry::Row(RowJson::new(self.table.arch(), &row)),
            Err(error) => RowEntry::Error { error: self.note(error) },
        });
        NamedFunction {
            name: self.places.independent(function.start()),
            size: function.size(),
            signal_frame: function.is_signal_frame(),
            repeats: function.is_pc_mask().then(|| function.rep_size()),
            rows: rows.collect(),
        }
    }

    /// Returns the text of an error, and remembers the first error.
    fn note(&self, error: sframe::Error) -> String {
        self.broken.set(self.broken.get().or(Some(error)));
        error.to_string()
    }
}

/// A function, or the reason why it cannot be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "FunctionOrError"))]
#[serde(untagged)]
enum Named {
    Function(NamedFunction),
    Error { error: String },
}

/// A function. `name` is the symbol at its start, or otherwise its section and the offset in it. `repeats` is the size
/// of a PLT's stub, after which the rows apply again. A row that means the same as the row before is not printed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NamedFunction {
    name: String,
    size: u32,
    signal_frame: bool,
    repeats: Option<u16>,
    rows: Vec<RowEntry>,
}
