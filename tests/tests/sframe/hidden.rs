//! Makes rows of real code without its CFI, and compares them with the CFI.

use cfipack_container::File;

use cfipack_tests::corpora;
use cfipack_tests::hidden::{Hidden, hide};
use cfipack_tests::machine::system_library;

fn hide_of(bytes: &[u8]) -> Hidden {
    hide(&File::parse(bytes).unwrap()).unwrap()
}

/// Returns the functions whose rows differ from the CFI.
fn different(hidden: &Hidden) -> Vec<&str> {
    hidden.different.iter().filter_map(|(place, ..)| place.split(' ').nth(1)).collect()
}

/// The comments in explain.s and explain_aarch64.s say which functions have wrong CFI.
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
    // Known: some versions have assembler functions that push but have one row.
    assert!(hidden.different.len() as u64 * 500 < hidden.decided, "{hidden:#?}");
}
