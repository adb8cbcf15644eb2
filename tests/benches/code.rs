//! Measures how long it takes to judge CFI by code, and to make rows from code, beside gimli's walk over the same CFI.
//! Runs take turns in one process on one thread; medians.
//!
//!     cargo bench -p cfipack-tests --bench code

use std::time::Duration;

use cfipack_cfi::Functions;
use cfipack_code::{Candidate, Code, Surroundings, synthesize};
use cfipack_container::{CallFrameSection, File};
use cfipack_format::Arch;
use cfipack_lint::FileMemory;
use cfipack_tests::figures;
use cfipack_tests::timing::by_turns;
use cfipack_tests::workload::Gimli;

const ROUNDS: usize = 7;

/// Libraries that nearly every machine has: in C and hand-written assembler, in C++, and in both.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libstdc++.so.6", "libcrypto.so.3"];
const DIRECTORIES: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64"];

fn main() {
    for name in LIBRARIES {
        let path = DIRECTORIES.iter().map(|directory| format!("{directory}/{name}"));
        let bytes = path.into_iter().find_map(|path| std::fs::read(path).ok());
        match bytes {
            Some(bytes) => library(name, bytes.leak()),
            None => println!("code of {name}: not measured: it is not here"),
        }
    }
}

fn library(name: &str, bytes: &'static [u8]) {
    let Ok(file) = File::parse(bytes) else { return };
    if file.arch() != Arch::Amd64 {
        return println!("code of {name}: not measured: it is not for x86-64");
    }
    let sections = file.call_frame_sections().expect("a whole file").leak();
    let [section, ..] = &sections[..] else { return };
    let mut gimli = Gimli::new(&section.section.bytes, section.section.address);
    println!("\n{name}: {} rows", gimli.walk());
    let lint = || cfipack_lint::lint(&file, sections, 1, &|_| true, &|_, _| {}).expect("a whole file");
    report(name, "lint", by_turns(ROUNDS, lint, || gimli.walk()));
    report(name, "synthesize", by_turns(ROUNDS, || make_rows(&file, sections), || gimli.walk()));
}

/// Makes rows of all functions, as if their CFI only had starts and ends. Returns how many functions have rows.
fn make_rows(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> usize {
    let memory = FileMemory::new(file).expect("a whole file");
    let all =
        sections.iter().flat_map(|section| Functions::new(&section.cfi()).flatten().collect::<Vec<_>>());
    let mut functions: Vec<_> = all.map(|function| (function.key.address(), function.size)).collect();
    functions.sort_unstable();
    let codes =
        functions.into_iter().filter(|(start, _)| !memory.is_stub(*start)).filter_map(|(start, size)| {
            let (bytes, relocated) = memory.code(start, size)?;
            Some((start, bytes, relocated))
        });
    let codes: Vec<_> = codes.collect();
    let candidate = |(start, bytes, relocated)| Candidate {
        code: Code { arch: file.arch(), start, bytes, relocated },
        call_sites: &[],
        noreturn: &[],
        is_known: true,
        is_exported: false,
    };
    let candidates: Vec<_> =
        codes.iter().map(|(start, bytes, relocated)| candidate((*start, bytes, &relocated[..]))).collect();
    let surroundings = Surroundings { jumps: &[], calls: &[], is_inside: &|_| false };
    synthesize(&candidates, &surroundings, &memory).iter().filter(|rows| rows.is_ok()).count()
}

fn report(name: &str, what: &str, (own, yard): (Duration, Duration)) {
    figures::times(name, what, own, "gimli walks all rows", yard, 1);
    let ratio = own.as_secs_f64() / yard.as_secs_f64();
    println!("  {what:<12} {own:>10.1?}   gimli walks all rows {yard:>10.1?}   {ratio:.1} times as long");
}
