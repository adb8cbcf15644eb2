//! Relocatable objects: where places have no address yet, and what gas wrote is read as gas meant it.

use std::process::Output;

use crate::program::run;

/// What a run of status `status` says on standard output.
pub fn said(status: i32, arguments: &[&str]) -> String {
    let Output { status: found, stdout, stderr } = run(arguments);
    let errors = String::from_utf8_lossy(&stderr);
    assert_eq!(found.code(), Some(status), "{arguments:?}: {errors}");
    String::from_utf8(stdout).unwrap()
}

/// An object that gas wrote, as the tests' directory sees it.
pub fn gas(name: &str) -> String {
    format!("../sframe/x86_64/{name}.o")
}

/// gas 2.44's relocations make starts relative to their fields, though its header does not say so.
#[test]
fn starts_are_read_as_their_relocations_make_them() {
    let (old, new) = (&gas("x_two_sections.gas244"), &gas("x_two_sections.gas247"));
    let expected = "  functions: 3 equal, 0 different, 0 missing\n";
    assert!(said(0, &["verify", old]).contains(expected));
    assert!(said(0, &["stats", old]).contains("  covered: 3 of 3 functions"));
    said(0, &["diff", old, new]);
    // By x_two_sections.s: one byte in front of the change.
    let row = "row +0x1: CFA = rsp+16, return address at CFA-8";
    assert!(said(0, &["lookup", old, "1"]).contains(row));
    // readelf goes by the header.
    let expected = std::fs::read_to_string("../corpora/sframe/x86_64/x_two_sections.gas244.readelf").unwrap();
    assert_eq!(said(0, &["dump", old]), expected);
}
