//! Tests damaged tables: each verb reports the defect and its place.

use std::fs;

use crate::program::{run, scratch};
use serde_json::Value;

/// Converts `linked.so`. Returns the path of the table, and of a copy that `damage` has changed.
fn damaged(test: &str, damage: impl FnOnce(&mut Vec<u8>)) -> [String; 2] {
    let directory = scratch(test);
    let [sound, broken] = ["sound", "broken"].map(|name| directory.join(name).to_str().unwrap().to_string());
    assert!(run(&["linked.so", "--section", &sound]).status.success());
    let mut bytes = fs::read(&sound).unwrap();
    damage(&mut bytes);
    fs::write(&broken, bytes).unwrap();
    [sound, broken]
}

/// Runs a command that must find differences. Returns standard output.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {printed}{errors}");
    printed
}

/// Checks that `verify` and `diff` print exactly these lines about the table, and count as many faults.
fn require_said([sound, broken]: [String; 2], faults: &[&str]) {
    let report = printed(&["verify", "linked.so", "--sframe", &broken]);
    let lines: Vec<_> = report.lines().filter_map(|line| line.strip_prefix("  section ")).collect();
    assert_eq!(lines, faults, "{report}");
    assert!(!report.contains("cannot be read"), "{report}");
    let json: Value =
        serde_json::from_str(&printed(&["verify", "--json", "linked.so", "--sframe", &broken])).unwrap();
    assert_eq!(json["malformed"], faults.len());
    let words: Vec<_> = faults.iter().map(|fault| format!("section {fault}")).collect();
    assert_eq!(json["faults"], serde_json::json!(words));

    let report = printed(&["diff", &sound, &broken]);
    let prefix = format!("{broken}: section ");
    let lines: Vec<_> = report.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
    assert_eq!(lines, faults, "{report}");
    assert!(report.contains(&format!(", {} malformed\n", faults.len())), "{report}");
    let json: Value = serde_json::from_str(&printed(&["diff", "--json", &broken, &sound])).unwrap();
    assert_eq!(json["faults"], serde_json::json!([words, []]));
}

/// The index starts at offset 28. The last field of an entry is the offset of the function's rows.
#[test]
fn a_function_that_cannot_be_read() {
    let tables = damaged("fault_function", |bytes| bytes[28 + 12..][..4].fill(0xff));
    require_said(tables, &[".sframe: offset 0x1c: FRE offset 0xffffffff is out of bounds"]);
}

/// The first entry's start is moved far after the other entries' starts. Every entry can be read.
#[test]
fn an_index_that_is_not_sorted() {
    let tables = damaged("fault_order", |bytes| bytes[28 + 2] ^= 1);
    let expected = ".sframe: offset 0x2c: FDE starts before the previous one in a sorted index";
    require_said(tables, &[expected]);
}

/// A table without functions has 28 bytes. The bytes after it are listed in the file's order.
#[test]
fn a_table_after_another_one() {
    let tables = damaged("fault_second", |bytes| {
        bytes[28 + 12..][..4].fill(0xff);
        let empty = [&bytes[..8], &[0; 20]].concat();
        bytes.splice(0..0, empty);
    });
    let fault = "offset 0x1c: FRE offset 0xffffffff is out of bounds";
    require_said(tables, &[&format!(".sframe: table at offset 0x1c: {fault}")]);
}

/// The table's header names AArch64's ABI, which has no fixed offset of the return address.
#[test]
fn a_table_for_another_architecture() {
    let [sound, broken] = damaged("fault_abi", |bytes| (bytes[4], bytes[6]) = (2, 0));
    let fault = "section .sframe: offset 0x4: ABI";
    for (arguments, expected) in [
        (
            &["verify", "linked.so", "--sframe", &broken][..],
            format!("{broken}: {fault} 2 is not that of linked.so"),
        ),
        (&["diff", &sound, &broken], format!("{broken}: {fault} 2 is not that of {sound}")),
        (&["diff", &broken, &sound], format!("{sound}: {fault} 3 is not that of {broken}")),
    ] {
        let output = run(arguments);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("error: {expected}\n"));
    }
}

/// `dump` prints the table as readelf does, and reports the error after it.
#[test]
fn a_header_with_a_wrong_number_of_fres() {
    let [sound, broken] = damaged("fault_num_fres", |bytes| bytes[12..14].copy_from_slice(&[0x0f, 0x27]));
    let dumped = |name: &str| {
        let output = run(&["dump", name]);
        (output.status.code(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()))
    };
    let (status, [text, _]) = dumped(&sound);
    assert_eq!(status, Some(0));
    let (_, rest) = text.split_once("Num FREs: ").unwrap();
    let sum = rest.lines().next().unwrap();
    let fault = format!(".sframe: offset 0xc: number of FREs is 9999, the functions have {sum}");
    let (status, [broken_text, error]) = dumped(&broken);
    assert_eq!(status, Some(2));
    assert_eq!(broken_text, text.replace(&format!("Num FREs: {sum}"), "Num FREs: 9999"));
    assert_eq!(error, format!("error: {broken}: section {fault}\n"));
    require_said([sound, broken], &[&fault]);
}
