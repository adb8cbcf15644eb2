//! Makes the `.sframe` that GNU `ld` should have made of a link's objects, and compares it with the one that it made.
//!
//! ```sh
//! LC_ALL=C ld -Map=out.map -o out main.o libsome.a
//! cargo run --release -p cfipack-tests --bin relink -- --linked out --map out.map main.o libsome.a
//! ```
//!
//! Exits with 0 if all bytes are the same, with 1 if not, after the first difference, and with 2 if a file cannot be
//! read. What `ld` is known to do wrong (docs/known-errors.md) is named and not a difference. `cfipack_tests::relink`
//! describes which links it takes.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use cfipack_tests::relink::map::Map;
use cfipack_tests::relink::output::Linked;
use cfipack_tests::relink::table::Report;
use cfipack_tests::relink::{files, table};

const USAGE: &str = "usage: relink --linked OUTPUT --map MAPFILE OBJECT...";

fn main() -> ExitCode {
    match run() {
        Ok(report) => {
            report.notes.iter().for_each(|note| println!("note: {note}"));
            let Report { functions, bytes, difference, .. } = report;
            match &difference {
                None => println!("identical: {functions} functions, {bytes} bytes"),
                Some(difference) => println!("different: {difference}"),
            }
            ExitCode::from(u8::from(difference.is_some()))
        }
        Err(error) => {
            eprintln!("relink: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<Report, Box<dyn Error>> {
    let (mut linked, mut map, mut given) = (None, None, Vec::new());
    let mut arguments = env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().map(PathBuf::from).ok_or(USAGE);
        match argument.to_str() {
            Some("--linked") => linked = Some(value()?),
            Some("--map") => map = Some(value()?),
            Some(option) if option.starts_with('-') => return Err(USAGE.into()),
            _ => given.push(PathBuf::from(argument)),
        }
    }
    let (Some(linked), Some(map)) = (linked, map) else { return Err(USAGE.into()) };
    let in_file = |path: &PathBuf, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let output = fs::read(&linked).map_err(|error| in_file(&linked, &error))?;
    let output = Linked::parse(&output).map_err(|error| in_file(&linked, &error))?;
    let text = fs::read(&map).map_err(|error| in_file(&map, &error))?;
    let text = String::from_utf8_lossy(&text);
    let map = Map::parse(&text).ok_or_else(|| in_file(&map, &"is no map of ld in English"))?;
    let objects = files::read(&map, &given)?;
    table::compare(&map, &objects, &output)
}
