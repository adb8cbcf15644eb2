//! Exit statuses: what is judged, what is not read, and what nobody reads.

use std::fs;
use std::process::Stdio;

use crate::program::{command, run, scratch};

/// The status of a run whose standard output is a pipe that nobody reads, and what it said of it.
fn unread(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_reader_that_has_seen_enough_does_not_change_what_was_judged() {
    let table = scratch("unread").join("table");
    let table = table.to_str().unwrap();
    assert!(run(&["linked.so", "--section", table]).status.success());
    for arguments in [
        &["verify", "linked.so", "--sframe", table, "--address", "16"][..],
        &["verify", "--json", "linked.so", "--sframe", table, "--address", "16"],
        &["diff", "linked.so", table, "--address-b", "16"],
        &["lookup", "linked.so", "1"],
        &["explain", "linked.so", "1"],
    ] {
        assert_eq!(unread(arguments), (Some(1), String::new()), "{arguments:?}");
    }
    // Its CFA is found by r10, which only a flex FDE can say.
    let flex = "../sframe/x86_64/x_def_cfa_r10.gas247.o";
    assert_eq!(run(&[flex, "--no-flex", "--json", "--min-coverage", "100"]).status.code(), Some(1));
    let (status, said) = unread(&[flex, "--no-flex", "--json", "--min-coverage", "100"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn a_function_that_cannot_be_dumped_is_an_error() {
    let table = scratch("undumped").join("table");
    let name = table.to_str().unwrap();
    assert!(run(&["linked.so", "--section", name]).status.success());
    let mut bytes = fs::read(&table).unwrap();
    // The first entry of the index starts at 28; its last field says where the function's rows are.
    bytes[28 + 12..][..4].fill(0xff);
    fs::write(&table, bytes).unwrap();
    for arguments in [&["dump", name][..], &["dump", "--json", name]] {
        let output = run(arguments);
        let [stdout, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(stdout.contains("0xffffffff"), "the other functions and the error: {stdout}");
        let expected = format!("cfi2sframe: error: {name}: section .sframe: offset ");
        assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    }
}

/// The kernel takes no table that speaks of anything but the code.
#[test]
fn a_table_that_lies_elsewhere_speaks_of_other_code() {
    let table = scratch("elsewhere").join("table");
    let table = table.to_str().unwrap();
    assert!(run(&["linked.so", "--section", table]).status.success());
    let verify = ["verify", "linked.so", "--profile", "kernel", "--sframe", table];
    for (address, broken) in [("0x0", false), ("0x100000", true)] {
        let output = run(&[&verify[..], &["--address", address]].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        let count = said.matches(" is not within the code\n").count();
        assert_eq!((output.status.code(), count != 0), (Some(i32::from(broken)), broken), "{said}");
    }
}

#[test]
fn an_address_in_no_function_is_status_1() {
    let output = run(&["explain", "linked.so", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"linked.so: no function has the address 0x1\n");
    let output = run(&["explain", "--unwind-info", "--json", "linked.so", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.ends_with(b"\"functions\":[]}\n"));
}

/// The linker left FDEs of other functions where one is: with the symbol of that one it is known, without
/// none of them is called right.
#[test]
fn functions_that_cannot_be_told_apart_are_not_judged() {
    for (file, status, counts) in [
        ("at_zero", 0, "  functions: 2 equal, 0 different, 0 missing\n"),
        (
            "at_zero.nameless",
            1,
            "  functions: 1 equal, 0 different, 0 missing, 1 unjudged, 1 of them in the table, \
             3 that start where another does\n",
        ),
    ] {
        let output = run(&[file, "--verify"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(counts), "{said}");
        let ambiguous = "\n  ambiguous: 4 functions with the start of one that says something else\n";
        assert_eq!(said.contains(ambiguous), status == 1, "{said}");
    }
}
