//! How many instructions conversion and verification take, and gimli's walk over the same rows: callgrind counts them,
//! so that the figures are those of an idle machine on a busy one.
//!
//!     cargo bench -p cfipack-tests --bench instructions [-- WAY…]

use std::env;
use std::hint::black_box;
use std::process::Command;

use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::sframe::Version;
use cfipack_roundtrip::{Table, verify};
use cfipack_tests::figures;
use cfipack_tests::workload::{Library, libraries};

/// Selects what the process runs.
const WAY: &str = "CFIPACK_COUNTED_WAY";

/// The yardstick, the ways to convert, and to verify.
const WAYS: [&str; 11] = [
    "gimli",
    "small",
    "small-two-threads",
    "small-unshared",
    "version-2",
    "gnu",
    "one-by-one",
    "one-by-one-unshared",
    "general",
    "general-unshared",
    "verify",
];

fn main() {
    let Some(library) = Box::leak(libraries().into_boxed_slice()).last() else {
        println!("benches: not measured: the toolchain has neither librustc_driver nor libLLVM");
        return;
    };
    if let Ok(way) = env::var(WAY) {
        let work = work(library, &way);
        black_box(counted(work));
        return;
    }
    let wanted: Vec<_> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let yardstick = count("gimli");
    println!("{}: gimli walks all rows: {yardstick:?} instructions", library.name);
    for way in
        WAYS.into_iter().skip(1).filter(|way| wanted.is_empty() || wanted.iter().any(|wanted| wanted == way))
    {
        match (count(way), yardstick) {
            (Some(count), Some(yardstick)) => {
                let (count, yardstick) = (count as f64, yardstick as f64);
                figures::compared(
                    library.name,
                    way,
                    count,
                    "instructions",
                    "gimli walks all rows",
                    yardstick,
                );
                println!("  {way:<18} {count:>12}   {:.2} times as few", yardstick / count);
            }
            _ => println!("{way}: valgrind is not here, or the program has no symbols"),
        }
    }
}

/// The instructions of [`counted`] in a process of its own.
fn count(way: &str) -> Option<u64> {
    let program = env::current_exe().expect("this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted*", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .env(WAY, way)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, collected) = text.split_once("Collected : ")?;
    // 0: the program has no symbols, by which valgrind finds the function.
    collected.split_whitespace().next()?.parse().ok().filter(|&count| count > 0)
}

/// Goes a way.
#[inline(never)]
fn counted(work: Box<dyn FnOnce() -> usize>) -> usize {
    work()
}

/// What a way does; what it needs first is done here.
fn work(library: &'static Library, way: &str) -> Box<dyn FnOnce() -> usize> {
    let small = Options::default();
    let unshared = small.with_share(false);
    let convert = |options, threads| -> Box<dyn FnOnce() -> usize> {
        Box::new(move || library.convert(options, threads).len())
    };
    match way {
        "gimli" => {
            let mut gimli = library.gimli();
            Box::new(move || gimli.walk() as usize)
        }
        "small" => convert(small, 1),
        "small-two-threads" => convert(small, 2),
        "small-unshared" => convert(unshared, 1),
        "version-2" => convert(small.with_version(Version::V2), 1),
        "gnu" => convert(small.with_layout(Layout::Gnu), 1),
        "one-by-one" => {
            Box::new(move || library.convert_each(small, |builder, function| builder.push(function)).len())
        }
        "one-by-one-unshared" => {
            Box::new(move || library.convert_each(unshared, |builder, function| builder.push(function)).len())
        }
        "general" => Box::new(move || {
            library.convert_each(small, |builder, function| builder.push_general(function)).len()
        }),
        "general-unshared" => Box::new(move || {
            library.convert_each(unshared, |builder, function| builder.push_general(function)).len()
        }),
        "verify" => {
            let table = library.convert(small, 1).leak();
            Box::new(move || {
                let tables = [Section::parse(table, library.table_address()).expect("our own table")];
                verify(&[library.cfi()], &Table::new(&tables), &Default::default()).pcs_equal as usize
            })
        }
        way => panic!("no such way: {way}"),
    }
}
