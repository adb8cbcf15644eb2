//! The marks on real code, whose CFI compilers wrote beside it, and on the same with wrong rows planted.

use std::collections::BTreeMap;

use cfipack_container::File;
use cfipack_format::Cfa;

use super::check::{Checker, Kind};
use super::disassembly::Code;
use super::rows;
use crate::report::place::Places;

/// The marks of a file's functions.
#[derive(Default, Debug)]
struct Tally {
    functions: usize,
    instructions: usize,
    marked: usize,
    marks: BTreeMap<Kind, usize>,
    /// The marked functions, for a reader.
    names: Vec<String>,
    planted: usize,
    found: usize,
}

fn tally(path: &str) -> Option<Tally> {
    let bytes = std::fs::read(path).ok()?;
    let file = File::parse(&bytes).unwrap();
    let places = Places::new(&file);
    let mut tally = Tally::default();
    for section in file.call_frame_sections().unwrap() {
        for function in cfipack_cfi::Functions::new(&section.cfi()) {
            let function = function.unwrap();
            let start = function.key.address();
            let Some(code) = Code::of(&file, start, function.size).unwrap() else { continue };
            let instructions = code.instructions(file.arch(), &places);
            let (mut rows, _) = rows::of_cfi(&function);
            let checker = Checker::new(file.arch(), start, &instructions, &rows);
            let marks = checker.marks();
            tally.functions += 1;
            tally.instructions += instructions.len();
            let is_clean = marks.is_empty();
            if !is_clean {
                tally.marked += 1;
                let first = marks.iter().next().map(|(index, marks)| {
                    format!("{} {}: {}", places.name(start), instructions[*index].text, marks[0].words)
                });
                tally.names.extend(first);
            }
            for mark in marks.into_values().flatten() {
                *tally.marks.entry(mark.kind).or_default() += 1;
            }
            // The same with one wrong row, in the middle.
            let middle = rows.len() / 2;
            if is_clean
                && rows.len() > 2
                && let Cfa::Register { offset, .. } = &mut rows[middle].row.cfa
            {
                *offset += 8;
                tally.planted += 1;
                let checker = Checker::new(file.arch(), start, &instructions, &rows);
                tally.found += usize::from(!checker.marks().is_empty());
            }
        }
    }
    Some(tally)
}

/// glibc is the hardest code at hand: its assembler functions, unwinding functions and signal trampolines have CFI
/// written by hand.
#[test]
fn libc_agrees_with_its_cfi_and_a_planted_row_does_not() {
    let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"];
    let Some(tally) = paths.into_iter().find_map(tally) else {
        eprintln!("SKIPPED: no libc.so.6 at {paths:?}");
        return;
    };
    println!("{tally:#?}");
    assert!(tally.functions > 1000 && tally.planted > 1000, "{tally:?}");
    // Known: swapcontext, which loads another stack; and assembler functions that push and have one row. With other
    // versions of glibc they are a few more or less.
    assert!(tally.marked * 200 < tally.functions, "{tally:#?}");
    assert!(tally.found * 100 >= tally.planted * 99, "{} of {}", tally.found, tally.planted);
}

/// Prints the marks of other files, which a reader judges:
/// `CFIPACK_EXPLAIN_FILES=FILE:FILE cargo test -p cfi2sframe --lib marks_of -- --ignored --nocapture`.
#[test]
#[ignore = "prints the marks of files that the environment names"]
fn marks_of_files() {
    let files = std::env::var("CFIPACK_EXPLAIN_FILES").expect("paths, with colons between them");
    for path in files.split(':') {
        println!("{path}: {:#?}", tally(path).expect(path));
    }
}

/// No word of AArch64 is a panic of the disassembler or of what reads effects. These are many of each kind.
#[test]
fn every_kind_of_word_is_decoded() {
    let mut word = 0u32;
    for _ in 0..2_000_000 {
        // A step that reaches every word in the end.
        word = word.wrapping_add(0x9e37_79b1);
        super::aarch64::decode(word.to_le_bytes(), cfipack_format::Address(0x1000), false);
    }
}
