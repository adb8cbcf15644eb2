//! Tests symbols by their names in the source: as printed, as accepted in arguments, and in JSON.

use std::path::{Path, PathBuf};

use cfipack_testkit::rustc::assemble;
use serde_json::Value;

use crate::program::{run_in, scratch};

/// Two functions called `a::h` (Itanium C++ ABI), a Rust function by each of its two manglings, and a C function.
const SYMBOLS: [&str; 5] =
    ["_ZN1a1hEi", "_ZN1a1hEd", "_RNvCs1234_7mycrate3foo", "_ZN7mycrate3bar17h0123456789abcdefE", "plain"];

/// Makes a directory with an object that has these symbols, each of one byte, and a table.
fn built(name: &str) -> PathBuf {
    let directory = scratch(name);
    let mut source = String::new();
    for symbol in SYMBOLS {
        source += &format!(".type {symbol},@function\n{symbol}: .cfi_startproc\n.byte 0\n.cfi_endproc\n");
        source += &format!(".size {symbol},1\n");
    }
    assemble(&directory, &source, "f.o");
    assert!(run_in(&directory, &["--in-place", "f.o"]).status.success());
    directory
}

/// Runs the command, which must end with `status`. Returns both output streams.
fn printed(directory: &Path, status: i32, arguments: &[&str]) -> String {
    let output = run_in(directory, arguments);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    text
}

#[test]
fn names_of_sources_are_accepted() {
    let directory = built("demangled");
    for (name, place, printed_name) in [
        ("a::h(int)", ".text+0x0", "a::h(int)"),
        ("_ZN1a1hEd", ".text+0x1", "a::h(double)"),
        ("a::h(double)", ".text+0x1", "a::h(double)"),
        ("mycrate::foo", ".text+0x2", "mycrate::foo"),
        ("mycrate::bar", ".text+0x3", "mycrate::bar"),
        ("plain", ".text+0x4", "plain"),
    ] {
        for verb in ["lookup", "explain"] {
            let text = printed(&directory, 0, &[verb, "f.o", name]);
            assert!(text.starts_with(&format!("{place} <{printed_name}>: ")), "{verb} {name}: {text}");
        }
    }
    let with_offset = printed(&directory, 0, &["lookup", "f.o", "a::h(int)+0x0"]);
    assert!(with_offset.starts_with(".text+0x0 <a::h(int)>: "), "{with_offset}");
    for verb in ["lookup", "explain"] {
        let expected = "error: f.o: several symbols have the name a::h, choose one by its place: \
                        .text+0x0 <a::h(int)>, .text+0x1 <a::h(double)>\n";
        assert_eq!(printed(&directory, 2, &[verb, "f.o", "a::h"]), expected);
        let expected = "error: f.o: no symbol of a function has the name plane; a similar one: plain\n";
        assert_eq!(printed(&directory, 2, &[verb, "f.o", "plane"]), expected);
    }
}

#[test]
fn reports_print_the_names_of_sources() {
    let directory = built("demangled_reports");
    let text = printed(&directory, 0, &["dump", "--symbols", "f.o"]);
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_suffix(": 1 bytes")).collect();
    assert_eq!(names, ["a::h(int)", "a::h(double)", "mycrate::foo", "mycrate::bar", "plain"]);
    let text = printed(&directory, 0, &["dump", "--symbols", "--no-demangle", "f.o"]);
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_suffix(": 1 bytes")).collect();
    assert_eq!(names, SYMBOLS);
    assert!(printed(&directory, 0, &["lookup", "--no-demangle", "f.o", "a::h(int)"]).contains("<_ZN1a1hEi>"));
    let json =
        |arguments: &[&str]| -> Value { serde_json::from_str(&printed(&directory, 0, arguments)).unwrap() };
    let dump = json(&["dump", "--json", "f.o"]);
    let lookup = json(&["lookup", "--json", "f.o", "a::h(int)"]);
    let explain = json(&["explain", "--json", "f.o", "a::h(int)"]);
    for function in [&dump["functions"][0], &lookup, &explain["functions"][0]] {
        assert_eq!((&function["symbol"], &function["demangled"]), (&"_ZN1a1hEi".into(), &"a::h(int)".into()));
    }
    assert_eq!(
        (&dump["functions"][4]["symbol"], &dump["functions"][4]["demangled"]),
        (&"plain".into(), &Value::Null)
    );
    let raw = json(&["lookup", "--json", "--no-demangle", "f.o", "a::h(int)"]);
    assert_eq!((&raw["symbol"], &raw["demangled"]), (&"_ZN1a1hEi".into(), &Value::Null));
}

#[test]
fn a_bare_table_has_no_symbols() {
    let directory = scratch("demangled_bare");
    let linked = crate::program::corpus().join("linked.so");
    assert!(run_in(&directory, &[linked.to_str().unwrap(), "--section", "table"]).status.success());
    let expected = "error: table: main: a bare section has no symbols: an address is a number\n";
    assert_eq!(printed(&directory, 2, &["lookup", "table", "main"]), expected);
}
