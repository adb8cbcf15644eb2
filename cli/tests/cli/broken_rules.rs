//! Tests what `verify` reports first about an `__unwind_info` that breaks its readers' rules or lacks functions.

use std::fs;

use serde_json::json;

use crate::compact::{json_of, offset_of_table, text, unpack};
use crate::program::run_in;

fn word(bytes: &mut [u8], at: usize) -> &mut [u8; 4] {
    bytes[at..].first_chunk_mut().unwrap()
}

fn offset(bytes: &mut [u8], at: usize) -> usize {
    u32::from_le_bytes(*word(bytes, at)) as usize
}

/// Readers disagree on 511 entries: each is a warning. After them in the table is an error: the second page does not
/// start where the index says. `verify` must report the error first.
#[test]
fn errors_come_before_warnings() {
    let name = "la_2_alt_1022.dylib";
    let directory = unpack("errors-first", &[name]);
    let mut image = fs::read(directory.join(name)).unwrap();
    let table = offset_of_table(&image);
    let commons = table + offset(&mut image, table + 4);
    *word(&mut image, commons) = 0x0200_2001_u32.to_le_bytes();
    let index = table + offset(&mut image, table + 20);
    let page = offset(&mut image, index + 12 + 4);
    let entries = page + usize::from(image[table + page + 4]);
    image[table + entries] += 1;
    fs::write(directory.join(name), &image).unwrap();

    let report = json_of(&directory, &["verify", "--json", name]);
    assert_eq!(report["rules"], json!({ "first-entry": 1, "frameless-pairs": 511 }));
    let [violations, warnings] =
        ["violations", "warnings"].map(|kind| report[kind].as_array().unwrap().as_slice());
    let first = format!("offset {entries:#x}: function ");
    let [violation] = violations else { panic!("{violations:?}") };
    assert!(violation.as_str().unwrap().starts_with(&first), "{violation}");
    assert_eq!((warnings.len(), &report["more_warnings"]), (100, &json!(411)));

    let output = run_in(&directory, &["verify", name]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(output.stdout);
    let lines: Vec<_> = stdout.lines().filter(|line| line.starts_with("  __unwind_info: ")).collect();
    assert_eq!(lines.len(), 102);
    assert!(lines[0].starts_with(&format!("  __unwind_info: {first}")), "{}", lines[0]);
    assert!(lines[1].starts_with("  __unwind_info: warning: offset "), "{}", lines[1]);
    assert_eq!(lines[101], "  __unwind_info: warning: and 411 more frameless-pairs");
}

#[test]
fn missing_functions_are_named() {
    let name = "l_8_dwarf_3.dylib";
    let directory = unpack("missing-named", &[name]);
    let before = json_of(&directory, &["verify", "--json", name]);
    assert_eq!((&before["missing"], &before["differences"]), (&json!(0), &json!([])));
    let mut image = fs::read(directory.join(name)).unwrap();
    let table = offset_of_table(&image);
    let commons = table + offset(&mut image, table + 4);
    *word(&mut image, commons) = [0; 4];
    fs::write(directory.join(name), &image).unwrap();
    let report = json_of(&directory, &["verify", "--json", name]);
    assert_eq!((&report["missing"], &report["different"]), (&json!(1), &json!(0)));
    let differences = report["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1);
    let words = differences[0]["words"].as_str().unwrap();
    assert!(
        words.ends_with("CFI: unwind information; table: an entry without unwind information"),
        "{words}"
    );
    let output = run_in(&directory, &["verify", name]);
    assert!(text(output.stdout).contains("table: an entry without unwind information\n"));
}
