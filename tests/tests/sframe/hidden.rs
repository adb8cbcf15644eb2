//! Rows of real code without its CFI.

use cfipack_container::File;

use cfipack_tests::corpora;
use cfipack_tests::hidden::{Hidden, hide};
use cfipack_tests::machine::system_library;

fn hide_of(bytes: &[u8]) -> Hidden {
    hide(&File::parse(bytes).unwrap()).unwrap()
}

/// The functions whose rows differ from the CFI.
fn different(hidden: &Hidden) -> Vec<&str> {
    hidden.different.iter().filter_map(|(place, ..)| place.split(' ').nth(1)).collect()
}

/// In explain.s and explain_aarch64.s the CFI of these is wrong, as their comments say.
#[test]
fn only_wrong_cfi_differs_from_rows_of_code() {
    let read = |name: &str| hide_of(&std::fs::read(corpora::directory().join(name)).unwrap());
    let hidden = read("container/explain.o");
    assert_eq!(different(&hidden), ["no_row", "no_instruction", "prologue_only"]);
    assert_eq!(different(&read("container/explain_aarch64.o")), ["prologue_only", "no_row"]);
    let hidden = read("sframe/x86_64/x_real_gcc_r3.gas247.o");
    assert_eq!((hidden.decided, different(&hidden)), (5, Vec::new()));
}

#[test]
#[ignore = "needs glibc"]
fn rows_of_libc_are_its_cfi() {
    let bytes = std::fs::read(system_library("libc.so.6").expect("glibc")).unwrap();
    let hidden = hide_of(&bytes);
    assert!(hidden.decided > 1000 && hidden.decided * 100 > hidden.functions * 80, "{hidden:?}");
    // Known: assembler functions that push and have one row, in some versions.
    assert!(hidden.different.len() as u64 * 500 < hidden.decided, "{hidden:#?}");
}
