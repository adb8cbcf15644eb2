//! Does a piece of the libraries' work on a library's CFI, TIMES times. `tests/counted/run` subtracts the instructions
//! of no time from those of one time.
//!
//!     work WAY FILE TIMES

use std::env;
use std::hint::black_box;
use std::path::Path;

use cfipack_decoder::sframe::{Registers, Section, step};
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::{Table, verify};
use cfipack_tests::workload::Library;

/// The number of PCs that are looked up, and of rows that are stepped from.
const PCS: usize = 10_000;
/// The stack pointer of steps. The stack is all zeros.
const SP: u64 = 0x7000_0000;
const STACK: u64 = 1 << 16;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [way, file, times] = &arguments[..] else { panic!("usage: work WAY FILE TIMES") };
    let library: &'static _ =
        Box::leak(Box::new(Library::read("library", Path::new(file)).expect("a library")));
    let mut work = work(library, way);
    for _ in 0..times.parse::<usize>().expect("a number of times") {
        black_box(work());
    }
}

/// Prepares the work of a way, and returns the function to be counted.
fn work(library: &'static Library, way: &str) -> Box<dyn FnMut() -> usize> {
    let options = Options::default();
    let table = || -> &'static Section<'static> {
        let bytes = library.convert(options, 1).leak();
        let section = Section::parse(bytes, library.table_address()).expect("our own table");
        Box::leak(Box::new(section))
    };
    match way {
        "gimli" => {
            let mut gimli = library.gimli();
            Box::new(move || gimli.walk() as usize)
        }
        "small" => Box::new(move || library.convert(options, 1).len()),
        "gnu" => Box::new(move || library.convert(options.with_layout(Layout::Gnu), 1).len()),
        "one-by-one" => {
            Box::new(move || library.convert_each(options, |builder, function| builder.push(function)).len())
        }
        "general" => Box::new(move || {
            library.convert_each(options, |builder, function| builder.push_general(function)).len()
        }),
        "verify" => {
            let table = Table::new(std::slice::from_ref(table()));
            Box::new(move || verify(&[library.cfi()], &table, &Default::default()).pcs_equal as usize)
        }
        "lookup" => {
            let (table, pcs) = (table(), library.pcs(PCS));
            Box::new(move || {
                pcs.iter().filter(|&&pc| table.lookup(pc).is_ok_and(|row| row.is_some())).count()
            })
        }
        "step" => {
            let table = table();
            let rows: Vec<_> =
                library.pcs(PCS).into_iter().filter_map(|pc| table.lookup(pc).ok().flatten()).collect();
            let registers = Registers { sp: SP, fp: Some(SP + STACK / 4), lr: None, others: &[] };
            let read = |address: Address| (SP..SP + STACK).contains(&address.0).then_some(0);
            Box::new(move || {
                rows.iter().filter(|row| black_box(step(Arch::Amd64, row, &registers, read)).is_ok()).count()
            })
        }
        way => panic!("no such way: {way}"),
    }
}
