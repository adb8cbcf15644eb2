//! Tests exit statuses: failed checks, inputs that cannot be read, and output that nobody reads.

use std::fs;
use std::process::Stdio;

use crate::program::{command, corpus, run, scratch};

/// Runs the program with standard output to a pipe without a reader. Returns status and standard error.
fn unread(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_closed_pipe_does_not_change_the_status() {
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
    // The CFA is based on r10, which only a flex FDE can represent.
    let flex = "../sframe/x86_64/x_def_cfa_r10.gas247.o";
    assert_eq!(run(&[flex, "--no-flex", "--json", "--min-coverage", "100"]).status.code(), Some(1));
    let (status, printed) = unread(&[flex, "--no-flex", "--json", "--min-coverage", "100"]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(!printed.contains("error"), "{printed}");
}

#[test]
fn a_function_that_cannot_be_dumped_is_an_error() {
    let table = scratch("undumped").join("table");
    let name = table.to_str().unwrap();
    assert!(run(&["linked.so", "--section", name]).status.success());
    let mut bytes = fs::read(&table).unwrap();
    // The index starts at offset 28. The last field of its first entry is the offset of the function's rows.
    bytes[28 + 12..][..4].fill(0xff);
    fs::write(&table, bytes).unwrap();
    for arguments in [&["dump", name][..], &["dump", "--json", name]] {
        let output = run(arguments);
        let [stdout, printed] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(stdout.contains("0xffffffff"), "the other functions and the error: {stdout}");
        let expected = format!("error: {name}: section .sframe: offset ");
        assert!(printed.starts_with(&expected) && printed.lines().count() == 1, "{printed}");
    }
}

/// The kernel refuses a table that has a function outside the code.
#[test]
fn a_table_at_another_address_is_for_other_code() {
    let table = scratch("elsewhere").join("table");
    let table = table.to_str().unwrap();
    assert!(run(&["linked.so", "--section", table]).status.success());
    let verify = ["verify", "linked.so", "--profile", "kernel", "--sframe", table];
    for (address, broken) in [("0x0", false), ("0x100000", true)] {
        let output = run(&[&verify[..], &["--address", address]].concat());
        let printed = String::from_utf8(output.stdout).unwrap();
        let count = printed.matches(" is not within the code\n").count();
        assert_eq!((output.status.code(), count != 0), (Some(i32::from(broken)), broken), "{printed}");
    }
}

#[test]
fn an_address_in_no_function_is_status_1() {
    let output = run(&["explain", "linked.so", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"linked.so: no function contains 0x1\n");
    let output = run(&["explain", "--unwind-info", "--json", "linked.so", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.ends_with(b"\"functions\":[]}\n"));
}

/// The linker left several FDEs at one address. With a symbol there, the right FDE is known. Without the symbol, none
/// of the functions is in the table.
#[test]
fn ambiguous_functions_are_omitted() {
    for (file, omitted, functions) in [
        ("at_zero", None, "  functions: 2 equal, 0 different, 0 missing\n"),
        (
            "at_zero.nameless",
            Some("\n  omitted: 4 ambiguous\n"),
            "  functions: 1 equal, 0 different, 0 missing, 1 unjudged",
        ),
    ] {
        let table = scratch("ambiguous").join(file);
        let table = table.to_str().unwrap();
        let output = run(&[file, "--verify", "--section", table]);
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(printed.contains(functions), "{printed}");
        match omitted {
            Some(omitted) => assert!(printed.contains(omitted), "{printed}"),
            None => assert!(output.status.success() && !printed.contains("omitted:"), "{printed}"),
        }
        // Four FDEs start at address 0.
        let found = run(&["lookup", table, "0"]);
        assert_eq!(found.status.success(), omitted.is_none(), "{found:?}");
        let explained = String::from_utf8(run(&["explain", file, "0"]).stdout).unwrap();
        let is_ambiguous =
            explained.contains("another function starts there, which does not have the same rows");
        assert_eq!(is_ambiguous, omitted.is_some(), "{explained}");
        let json: serde_json::Value = serde_json::from_slice(&run(&[file, "--json"]).stdout).unwrap();
        assert_eq!(json["ambiguous"], if omitted.is_some() { 4 } else { 0 });
    }
}

/// Moves everything that is loaded up by 8 GiB.
fn moved_up(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let count = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    let (segments, sections) = (number(&bytes, 32) as usize, number(&bytes, 40) as usize);
    let segments = (0..count(56).into()).map(|index: usize| segments + 56 * index + 16);
    let sections = (0..count(60).into()).map(|index: usize| sections + 64 * index + 16);
    let moved: Vec<_> = segments.chain(sections.filter(|&at| number(&bytes, at) != 0)).collect();
    for at in moved {
        let address = number(&bytes, at) + (8 << 30);
        bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
    }
    bytes
}

/// Version 2 reaches 2 GiB. The table's address comes from the file, and functions out of reach are omitted by name.
#[test]
fn version_2_of_a_file_far_from_0() {
    let directory = scratch("far");
    let file = directory.join("far.so");
    fs::write(&file, moved_up(&fs::read(corpus().join("linked.so")).unwrap())).unwrap();
    let without_table = directory.join("far");
    fs::write(&without_table, moved_up(&fs::read(corpus().join("both_frames")).unwrap())).unwrap();
    let (file, without_table) = (file.to_str().unwrap(), without_table.to_str().unwrap());
    let table = directory.join("table");
    let table = table.to_str().unwrap();
    let version_2 = |arguments: &[&str]| {
        let output = run(&[arguments, &["--sframe-version", "2"]].concat());
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let stats = ["stats", without_table];
    for arguments in [&[file][..], &[file, "--verify"], &stats, &["explain", file]] {
        let (status, printed) = version_2(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {printed}");
        assert!(!printed.contains("start-too-far"), "{printed}");
    }
    let (status, printed) = version_2(&[file, "--section", table]);
    assert_eq!(status, Some(2), "{printed}");
    let (_, place) = printed.trim_end().trim_end_matches(" is near the code").rsplit_once(' ').unwrap();
    let (status, printed) = version_2(&[file, "--section", table, "--address", place, "--verify"]);
    assert!(status == Some(0) && printed.contains(" converted (100.00 %)"), "{printed}");
    let at_place = ["verify", file, "--sframe", table, "--address", place];
    assert_eq!(run(&at_place).status.code(), Some(0));
    let (status, printed) = version_2(&[file, "--section", table, "--address", "0", "--verify"]);
    // Nothing was compared, so the table is not verified.
    assert!(status == Some(1) && printed.contains(" 0 converted (0.00 %)"), "{printed}");
    assert!(printed.contains("\n  not verified against the CFI:\n"), "{printed}");
    assert_eq!(
        printed.matches(" start-too-far").count(),
        2,
        "what is omitted, and what is missing: {printed}"
    );
}
