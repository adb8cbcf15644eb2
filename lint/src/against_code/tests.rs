//! Compares real code with the CFI that compilers wrote for it, and with the same CFI after one row was changed.

use cfipack_code::Rows;
use cfipack_container::{CallFrameSection, File};
use cfipack_format::{Cfa, Rule};
use cfipack_roundtrip::cfi::Functions;

use super::function::Linter;
use crate::FileMemory;
use crate::returns::Imports;

const PATHS: [&str; 3] =
    ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"];

/// Makes a row wrong. Returns false if that is not possible.
type Fault = fn(&mut Rows, usize) -> bool;

const FAULTS: [(&str, Fault); 4] = [
    ("the CFA is 8 too high", |rows, index| match rows.row_mut(index).map(|row| &mut row.cfa) {
        Some(Cfa::Register { offset, .. }) => {
            *offset += 8;
            true
        }
        _ => false,
    }),
    ("the CFA of the row before stays", |rows, index| {
        let Some(before) = index.checked_sub(1).and_then(|before| rows.get(before)) else { return false };
        let cfa = before.row.cfa;
        rows.row_mut(index).is_some_and(|row| std::mem::replace(&mut row.cfa, cfa) != cfa)
    }),
    ("the return address is elsewhere", |rows, index| {
        match rows.row_mut(index).map(|row| &mut row.return_address) {
            Some(Rule::Cfa(offset)) => {
                *offset -= 8;
                true
            }
            _ => false,
        }
    }),
    ("a saved register is elsewhere", |rows, index| match rows.saved_mut(index).first_mut() {
        Some((_, Rule::Cfa(offset))) => {
            *offset -= 8;
            true
        }
        _ => false,
    }),
];

/// glibc is harder than code from a compiler: the CFI of its assembler functions, unwinding functions and signal
/// trampolines is written by hand.
#[test]
#[ignore = "needs glibc"]
fn libc_agrees_with_its_cfi_and_planted_faults_are_found() {
    let bytes = PATHS.iter().find_map(|path| std::fs::read(path).ok());
    let bytes = bytes.unwrap_or_else(|| panic!("no libc.so.6 at {PATHS:?}"));
    let file = File::parse(&bytes).unwrap();
    let sections = file.call_frame_sections().unwrap();
    let lint = super::lint(&file, &sections, 1, &|_| true, &|_, _| {}).unwrap();
    let undecided: u64 = lint.undecided.values().sum();
    assert!(lint.decided > 1000, "{lint:?}");
    assert!(undecided * 20 < lint.decided, "{:?} of {}", lint.undecided, lint.decided);
    // The known findings are swapcontext, which loads another stack, and assembler functions that push but have a
    // single row. Other versions of glibc have a few more or less.
    assert!(lint.functions.len() as u64 * 200 < lint.decided, "{:#?}", lint.functions);

    let memory = FileMemory::new(&file).unwrap();
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let functions = Functions::find(&cfi);
    let imports = Imports::default();
    let mut linter = Linter::new(&memory, &functions, file.arch(), &imports);
    for (name, plant) in FAULTS {
        let (mut planted, mut found) = (0, 0);
        for (number, function) in functions.as_slice().iter().enumerate().step_by(3) {
            if linter.with_rows(function, |rows| !rows.is_empty()) != Some(true) {
                continue;
            }
            // Change a different row each time.
            let clean = linter.with_rows(function, |rows| {
                let count = rows.len();
                count > 1 && plant(rows, 1 + number % (count - 1))
            });
            planted += usize::from(clean.is_some());
            found += usize::from(clean == Some(false));
        }
        println!("{name}: {found} of {planted}");
        assert!(planted > 100 && found * 100 >= planted * 98, "{name}: {found} of {planted}");
    }
}
