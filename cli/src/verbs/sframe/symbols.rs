//! `dump --symbols`: functions by their symbols, and rows by offsets from them. The text is one of goldens: it is equal
//! for tables that mean the same, at any address and in any layout.

use std::io::{self, Write};

use anyhow::Context as _;
use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::{Arch, FunctionOffset, Row};
use cfipack_roundtrip::words::Words;

use crate::absent::SFRAME_TABLE;
use crate::io::each::Outcome;
use crate::io::input::Object;
use crate::io::output;
use crate::report::place::Places;
use crate::report::status::Status;
use crate::verbs::dump::Arguments;

/// Prints the functions of every table of an object, in the table's order. What cannot be read is an error, which is
/// returned after the rest is printed.
pub fn dump(object: &Object<'_>, several: bool, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let sections = object.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables = object.tables(&sections)?;
    if tables.is_empty() {
        return Ok(Outcome::Absent(SFRAME_TABLE));
    }
    let mut out = output::standard();
    if several {
        writeln!(out, "\nFile: {}", object.name)?;
    }
    let places = Places::of(object).with_names(arguments.names);
    let mut broken = None;
    for table in &tables {
        let error = print_table(&mut out, table, &places)?;
        broken = broken.or(error);
    }
    out.flush()?;
    match broken {
        Some(error) => Err(error).context("section .sframe"),
        None => Ok(Outcome::Done(Status::Done)),
    }
}

/// Prints a table; its first error.
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

/// Prints a function and each row that is not the one before it; the first error.
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
    let mut last = None;
    for row in function.rows() {
        let row = match row {
            Ok(row) => row,
            Err(error) => return Ok(Some(error)),
        };
        let meaning = Row { start: FunctionOffset(0), ..row };
        if last.replace(meaning) != Some(meaning) {
            writeln!(out, "  +{}: {}", row.start, Words(arch, row))?;
        }
    }
    Ok(None)
}
