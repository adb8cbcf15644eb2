//! Makes the `.sframe` that GNU `ld` should have made of a link's objects, and compares it with the one that it made.
//!
//! ```sh
//! LC_ALL=C ld -Map=out.map -o out main.o libsome.a
//! cargo run --release --example relink -- --linked out --map out.map main.o libsome.a
//! ```
//!
//! Takes executables, shared libraries and relocatable output (`ld -r`, with its relocations) of `ld` 2.46 or later for
//! x86-64, AArch64 and s390x. Needs no command line: the map says what is where. Of the files that it names, those that
//! are given are read, archives for their members too, and others (C libraries, `crt1.o`) from the path that the
//! map has; shared libraries are not read.
//!
//! Exits with 0 if all bytes are the same, with 1 if not, after the first difference, and with 2 if a file cannot be
//! read. What `ld` is known to do wrong (docs/for-linkers.md) is named and not a difference.
//!
//! What the map leaves open: several sections of one object with one name and size, of which garbage collection removed
//! some, are told apart by their global symbols; without any, the first ones are taken as kept. Not covered: several
//! `.sframe` in an object.
//!
//! The objects that link-time optimisation makes are temporary files: `gcc -save-temps` keeps them, as
//! `out.ltrans0.ltrans.o` and so on, which are given like other objects. Tables that a script discards or that
//! `--discard-sframe` empties are named, and none is expected; so are relocations of `--emit-relocs` that lead to other
//! functions than their fields.

pub(crate) mod files;
pub(crate) mod link;
pub(crate) mod map;
pub(crate) mod object;
pub(crate) mod output;
pub(crate) mod table;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use map::Map;
use output::Linked;
use table::Report;

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
