//! Stack deltas of many files, as a profiler in eBPF keeps them: an address and the number of a rule for each row, one
//! palette of rules for all files of a machine, and blocks of deltas that files share.
//!
//! ```sh
//! cargo run --release --example deltas -- FILE...
//! ```
//!
//! Prints rows and bytes of each file and of all, next to one array for each file; then looks every delta up, and the
//! address before it, and compares the rule with the table's.

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

/// Bytes of an element of one array for each file: a 32-bit address and a rule's number. Elements of BPF's arrays take a
/// multiple of 8 bytes.
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

/// A table of a file's call frame information.
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

/// Looks up each delta's address and the one before it; returns how many lookups were compared.
fn check(
    section: &Section<'_>,
    machine: &Machine,
    image: &machine::Image,
    deltas: &[deltas::Delta],
) -> Result<usize, Box<dyn Error>> {
    let addresses = deltas.iter().flat_map(|delta| [delta.address.wrapping_sub(1), delta.address]);
    let mut lookups = 0;
    for address in addresses {
        let expected = section.lookup_frame(Address(address))?.map(|frame| palette::Rule::of(&frame));
        let found = machine.palette.rule(machine.lookup(image, address));
        if found != expected {
            return Err(format!("{address:#x}: {found:?}, by the table {expected:?}").into());
        }
        lookups += 1;
    }
    Ok(lookups)
}
