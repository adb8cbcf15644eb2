//! The marks on real code, whose CFI compilers wrote beside it, and on the same with wrong rows planted.

use std::collections::BTreeMap;

use cfipack_container::File;
use cfipack_format::{Address, Cfa};

use super::check::{Checker, Kind};
use super::decoded::Text;
use super::disassembly::Code;
use super::effect::Change;
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
        super::aarch64::decode(word.to_le_bytes(), Address(0x1000), false);
    }
}

/// An index after an access changes the base by what the disassembler prints.
#[test]
fn accesses_with_an_index_after_them_change_the_base() {
    // SIMD structures, whole and single; registers; pairs: the bits that vary, and the others.
    let kinds = [
        (0x405f_ffff, 0x0c80_0000),
        (0x407f_ffff, 0x0d80_0000),
        (0xc4df_f3ff, 0x3800_0400),
        (0xc47f_ffff, 0x2880_0000),
    ];
    for (varies, fixed) in kinds {
        let (mut word, mut seen) = (0u32, 0);
        for round in 0..100_000 {
            word = word.wrapping_add(0x9e37_79b1);
            // Register 31 stands for an immediate: half of them.
            let word = word & varies | fixed | if round % 2 == 0 { 0x001f_0000 & varies } else { 0 };
            let decoded = super::aarch64::decode(word.to_le_bytes(), Address(0x1000), false);
            let Text::Plain(text) = &decoded.text else { continue };
            let Some((access, index)) = text.rsplit_once("], ").filter(|_| !text.starts_with("invalid"))
            else {
                continue;
            };
            let Some((_, base)) = access.rsplit_once('[') else { continue };
            let base = if base == "sp" { 31 } else { base[1..].parse().unwrap() };
            let Some(number) = index.strip_prefix('#') else {
                assert_eq!(decoded.effect.writes, 1 << base, "{word:08x} {text}");
                continue;
            };
            let magnitude =
                i64::from_str_radix(number.trim_start_matches('-').trim_start_matches("0x"), 16).unwrap();
            let expected = if number.starts_with('-') { -magnitude } else { magnitude };
            let set = |change: &Change| match *change {
                Change::Set { register, base: from, add } => {
                    register.0 == base && from.0 == base && add == expected
                }
                Change::Load { .. } => false,
            };
            assert!(decoded.effect.changes.iter().any(set), "{word:08x} {text} {:?}", decoded.effect);
            seen += 1;
        }
        assert!(seen > 1000, "{seen} of {fixed:x}");
    }
}
