//! Keeps stack deltas of many files as an eBPF profiler does: an address and a rule number for each row, a
//! palette of rules for all files of a machine, and blocks of deltas that files share.
//!
//! ```sh
//! cargo run --release --example deltas -- FILE...
//! ```
//!
//! Prints the rows and bytes of each file and of all files, and for comparison the bytes of a plain array per file.
//! Then looks up each delta's address and the address before it, and compares the rule with the table's.

mod deltas;
mod machine;
mod palette;

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use cfipack::cfi::Functions;
use cfipack::container;
use cfipack::decoder::sframe::Section;
use cfipack::encoder::sframe::{Builder, Options};
use cfipack::format::Address;

use machine::Machine;

/// The bytes of an element in a plain array: a 32-bit address and a rule number. BPF rounds the size of an
/// element up to a multiple of 8 bytes.
const ARRAY_ELEMENT: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let mut machine = Machine::new();
    let (mut rows, mut lookups) = (0, 0);
    println!("{:>9} {:>9} {:>9} {:>6} {:>8}  file", "rows", "bytes", "array", "shared", "ms");
    for path in env::args_os().skip(1) {
        let name = Path::new(&path).file_name().unwrap_or(&path).to_string_lossy().into_owned();
        let table = match pack(Path::new(&path)) {
            Ok(table) => table,
            Err(error) => {
                eprintln!("{name}: {error}");
                continue;
            }
        };
        let section = Section::parse(&table, Address(0))?;
        let start = Instant::now();
        let deltas = deltas::of_table(&section, &mut machine.palette)?;
        let image = machine.load(&deltas)?;
        let time = start.elapsed().as_secs_f64() * 1e3;
        let array = deltas.len() * ARRAY_ELEMENT;
        println!(
            "{:>9} {:>9} {array:>9} {:>6} {time:>8.2}  {name}",
            deltas.len(),
            image.new_bytes,
            image.shared
        );
        rows += deltas.len();
        lookups += check(&section, &machine, &image, &deltas)?;
    }
    println!(
        "{rows:>9} {:>9} {:>9}  all, with {} rules",
        machine.len(),
        rows * ARRAY_ELEMENT,
        machine.palette.len()
    );
    println!("{lookups} lookups equal the tables'");
    Ok(())
}

/// Makes a table from a file's call frame information.
fn pack(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let file = container::File::parse(&bytes)?;
    let sections = file.call_frame_sections()?;
    let mut builder = Builder::new(file.arch(), Options::default())?;
    for section in &sections {
        builder.push_all(Functions::new(&section.cfi()), |_omitted| ());
    }
    Ok(builder.finish().into_bytes(Address(0), |function| Address(function.0))?)
}

/// Looks up each delta's address and the address before it. Returns the number of lookups.
fn check(
    section: &Section<'_>,
    machine: &Machine,
    image: &machine::Image,
    deltas: &[deltas::Delta],
) -> Result<usize, Box<dyn Error>> {
    let addresses = deltas.iter().flat_map(|delta| [delta.address.wrapping_sub(1), delta.address]);
    let mut lookups = 0;
    for address in addresses {
        let expected = section.lookup_frame(Address(address))?.map(|frame| palette::Rule::of_frame(&frame));
        let found = machine.palette.rule(machine.lookup(image, address));
        if found != expected {
            return Err(format!("{address:#x}: {found:?}, by the table {expected:?}").into());
        }
        lookups += 1;
    }
    Ok(lookups)
}
