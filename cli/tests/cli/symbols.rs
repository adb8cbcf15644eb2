//! Tests `dump --symbols`. The text follows from the directives alone, whichever tool wrote the table and wherever it is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compact::text;
use crate::program::{run, scratch};

/// Returns the path of a corpus object that a real assembler wrote.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe/x86_64").join(name)
}

/// Dumps a file, which must succeed, and returns the text.
fn dumped(path: &Path) -> String {
    let output = run(&["dump", "--symbols", path.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(output.stderr)), (Some(0), String::new()), "{}", path.display());
    text(output.stdout)
}

/// The expected rows are from the directives of x_pushpop_fp.s and x_dup_value.s. gas repeats rows of the latter.
#[test]
fn rows_are_those_of_the_directives() {
    let frame = "\
f: 7 bytes
  +0x0: CFA = rsp+8, return address at CFA-8
  +0x1: CFA = rsp+16, return address at CFA-8, rbp at CFA-16
  +0x4: CFA = rbp+16, return address at CFA-8, rbp at CFA-16
  +0x6: CFA = rsp+8, return address at CFA-8, rbp at CFA-16
";
    let repeated = "\
f: 4 bytes
  +0x0: CFA = rsp+8, return address at CFA-8
  +0x2: CFA = rsp+16, return address at CFA-8
";
    for (name, expected) in [("x_pushpop_fp", frame), ("x_dup_value", repeated)] {
        for tool in ["gas247", "gas244", "llvm23"] {
            assert_eq!(dumped(&golden(&format!("{name}.{tool}.o"))), expected, "{name} by {tool}");
        }
    }
}

/// A stripped linked file gives names of sections. A bare table gives only addresses.
#[test]
fn places_without_symbols_have_names() {
    let directory = scratch("symbols");
    let bare = directory.join("table");
    assert!(run(&["linked.so", "--section", bare.to_str().unwrap()]).status.success());
    let object = directory.join("linked.so");
    assert!(run(&["linked.so", "-o", object.to_str().unwrap()]).status.success());
    let by_section = dumped(&object);
    let by_address = dumped(&bare);
    let heads = |text: &str| text.lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(heads(&by_section), heads(&by_address));
    assert!(by_address.starts_with("0x"), "{by_address}");
    assert!(!by_section.contains("\n0x"), "{by_section}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn json_names_the_symbol() {
    let output = run(&["dump", "--json", golden("x_pushpop_fp.gas247.o").to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["functions"][0]["symbol"], "f");
}

/// Like the text, the JSON depends neither on addresses nor on the form of the table.
#[test]
fn json_by_symbols() {
    let json = |name: &str| -> serde_json::Value {
        let output = run(&["dump", "--symbols", "--json", golden(name).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    for name in ["x_pushpop_fp", "x_dup_value"] {
        let [gas, llvm] = ["gas247", "llvm23"].map(|tool| json(&format!("{name}.{tool}.o")));
        assert_eq!(gas["functions"], llvm["functions"], "{name}");
        let [function] = &gas["functions"].as_array().unwrap()[..] else { panic!("{gas}") };
        let rows = dumped(&golden(&format!("{name}.gas247.o"))).lines().count() - 1;
        assert_eq!((&function["name"], function["rows"].as_array().unwrap().len()), (&"f".into(), rows));
    }
    let output = run(&["dump", "--symbols", "--json", "../compact-unwind/mc/x02_rbp.o"]);
    assert!(text(output.stderr).contains("--symbols prints .sframe tables"));
}
