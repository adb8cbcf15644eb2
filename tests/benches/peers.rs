//! Measures how long other tools take to make or read the same tables and CFI: a whole process each, or the difference
//! of two. Runs take turns; medians.
//!
//!     CFIPACK_COMMAND=CFI2SFRAME CFIPACK_REFERENCE_TOOLS=DIR cargo bench -p cfipack-tests --bench peers

use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use cfipack_cfi::Functions;
use cfipack_encoder::sframe::At;
use cfipack_format::pool::Threads;
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Live, Merger, Options, Prefer};
use cfipack_testkit::random::Random;
use cfipack_tests::elf_object::{ElfObject, Place};
use cfipack_tests::figures;
use cfipack_tests::machine::toolchain_library;
use cfipack_tests::many_functions::source;
use cfipack_tests::reference::Tools;
use cfipack_tests::timing::{median, time};
use cfipack_tests::workload::libraries;

const FUNCTIONS: usize = 20_000;
const ROUNDS: usize = 5;

fn main() {
    let tools = Tools::find();
    readers(&tools);
    assemblers(&tools);
}

fn report(subject: &str, ours: (&str, Duration), theirs: (&str, Duration), functions: usize) {
    figures::times(subject, ours.0, ours.1, theirs.0, theirs.1, functions);
    let ratio = theirs.1.as_secs_f64() / ours.1.as_secs_f64();
    println!("  {} {:.1?}   {} {:.1?}: {ratio:.1} times as fast", ours.0, ours.1, theirs.0, theirs.1);
}

/// Converts a library in a process, beside tools that print the same rows.
fn readers(tools: &Tools) {
    let Some(command) = env::var_os("CFIPACK_COMMAND") else {
        return println!("peers: the command: not measured: CFIPACK_COMMAND is not set");
    };
    let Some(library) = libraries().into_iter().next() else {
        return println!("peers: not measured: the toolchain has neither librustc_driver nor libLLVM");
    };
    let functions = Functions::new(&library.cfi()).count();
    let path = toolchain_library(library.name).expect("it was there");
    fs::copy(&path, tools.path("library")).expect("the tools' tree can be written to");
    let run = |verb: &[&str]| {
        let output = Command::new(&command).args(verb).arg(&path).output().expect("the command runs");
        assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let table = tools.path("table");
    let table = table.to_str().expect("a path of letters");
    let peers = ["readelf -wF", "llvm-dwarfdump-23 --eh-frame"];
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(time(|| run(&["--section", table])));
        for (times, peer) in times[1..].iter_mut().zip(peers) {
            let line = format!("{peer} library > /dev/null 2>&1");
            times.push(time(|| tools.run_well(&["sh", "-c", &line])));
        }
    }
    let [ours, readelf, dwarfdump] = times.map(median);
    println!("{}: {functions} functions", library.name);
    for (peer, time) in peers.into_iter().zip([readelf, dwarfdump]) {
        report(library.name, ("cfi2sframe, whole process", ours), (peer, time), functions);
    }
}

/// Measures the additional time of assemblers with `--gsframe`, beside the conversion of the CFI that they wrote.
fn assemblers(tools: &Tools) {
    tools.write("f.s", source(&mut Random::new(1), FUNCTIONS));
    tools.run_well(&["as", "--gsframe=no", "f.s", "-o", "f.o"]);
    let object = ElfObject::parse(&tools.read("f.o"));
    let convert = || {
        let input = [object.cfi()];
        let mut merger = Merger::new(Arch::Amd64, Options::new().with_prefer(Prefer::Cfi)).unwrap();
        merger.reserve(&input);
        let mut walk = object.walk();
        let live = |field| Some(Live::new(walk.target(field)?.key(0)));
        merger.push_object(&input[0], live, |note| panic!("{note}"));
        let section = merger.finish();
        let mut out = vec![0; section.len()];
        let address_of = |key: Key| Address(0x1000 + Place::from_key(key).1.offset);
        section.write(&mut out, At::on(Address(0x100_0000), &Threads(1)), address_of).unwrap();
        out
    };
    let commands: [&[&str]; 4] = [
        &["as", "--gsframe=no", "f.s", "-o", "out.o"],
        &["as", "--gsframe", "f.s", "-o", "out.o"],
        &["llvm-mc-23", "--filetype=obj", "f.s", "-o", "out.o"],
        &["llvm-mc-23", "--filetype=obj", "--gsframe", "f.s", "-o", "out.o"],
    ];
    let (mut ours, mut theirs): (Vec<_>, [Vec<_>; 4]) = Default::default();
    for _ in 0..ROUNDS {
        ours.push(time(|| drop(convert())));
        for (times, command) in theirs.iter_mut().zip(commands) {
            times.push(time(|| tools.run_well(command)));
        }
    }
    let (ours, [plain, gas, llvm_plain, llvm]) = (median(ours), theirs.map(median));
    println!("{FUNCTIONS} functions of assembler text");
    for (peer, time) in [
        ("gas, with --gsframe less without", gas.saturating_sub(plain)),
        ("llvm-mc, with --gsframe less without", llvm.saturating_sub(llvm_plain)),
    ] {
        report("functions of an object", ("small, from CFI", ours), (peer, time), FUNCTIONS);
    }
}
