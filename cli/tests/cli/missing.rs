//! Tests functions that a table lacks, tables for other places, and files with nothing to compare.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::compact::{json_of, text, unpack};
#[cfg(target_os = "linux")]
use crate::program::corpus;
use crate::program::{run, run_in, scratch};

/// Two objects with tables: `all.o` of f1, f2 and f3, and `without.o`, whose table lacks f2. By the source, x_mixed_flex.s, f2
/// has 7 bytes, and its CFA is based on r10 from byte 5 on, which needs a flex FDE.
fn objects(test: &str) -> PathBuf {
    let directory = scratch(test);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe/x86_64/x_mixed_flex.gas247.o");
    fs::copy(source, directory.join("plain.o")).unwrap();
    for arguments in
        [&["strip", "plain.o"][..], &["plain.o", "-o", "all.o"], &["plain.o", "-o", "without.o", "--no-flex"]]
    {
        assert_eq!(run_in(&directory, arguments).status.code(), Some(0), "{arguments:?}");
    }
    directory
}

#[test]
fn a_function_that_a_table_lacks_is_named() {
    let directory = objects("lacks");
    let words = "the CFA is counted from register 10";
    let line = &format!(".text+0x2 <f2>: missing: at .text+0x7 {words}\n");
    let listed = json!([{
        "function": ".text+0x2",
        "pc": ".text+0x7",
        "missing": true,
        "words": words,
    }]);
    // No function of this table is flex, which is a reason. `-o` ended with 0 too.
    for (strict, status) in [(&[][..], 0), (&["--strict"], 1)] {
        let output = run_in(&directory, &[&["verify", "without.o"], strict].concat());
        let printed = text(output.stdout);
        assert!(output.status.code() == Some(status) && printed.contains(line), "{printed}");
        let written = [&["plain.o", "-o", "strict.o", "--no-flex"], strict].concat();
        assert_eq!(run_in(&directory, &written).status.code(), Some(status));
    }
    assert!(!text(run_in(&directory, &["verify", "all.o"]).stdout).contains("f2"));
    let report = json_of(&directory, &["verify", "--json", "without.o"]);
    assert_eq!((&report["unverified"], &report["more_unverified"]), (&listed, &json!(0)));

    let printed = text(run_in(&directory, &["stats", "without.o"]).stdout);
    assert!(printed.contains("    .text+0x2 <f2>: at .text+0x7 the CFA is counted"), "{printed}");
    let coverage = &json_of(&directory, &["stats", "--json", "without.o"])["coverage"];
    assert_eq!((&coverage["unverified"], &coverage["more_unverified"]), (&listed, &json!(0)));
    // A file without a table: the functions that a conversion would omit.
    let printed = text(run_in(&directory, &["stats", "--no-flex", "plain.o"]).stdout);
    assert!(printed.contains("    .text+0x2 <f2>: at .text+0x7 the CFA is counted from"), "{printed}");

    let printed = text(run_in(&directory, &["explain", "without.o"]).stdout);
    assert!(printed.starts_with(line), "{printed}");
    let printed = text(run_in(&directory, &["explain", "--no-flex", "without.o"]).stdout);
    assert!(printed.starts_with(".text+0x2 <f2>: omitted: at .text+0x7 "), "{printed}");
    assert_eq!(printed.matches("f2").count(), 1, "once: {printed}");
}

/// A report names the first 100 functions, and counts the other functions.
#[test]
#[cfg(target_os = "linux")]
fn the_first_functions_are_named() {
    let directory = scratch("first");
    let program = env!("CARGO_BIN_EXE_cfi2sframe");
    let table = directory.join("table");
    // A table with one function, for a program with thousands.
    let small = corpus().join("both_frames");
    assert!(run(&[small.to_str().unwrap(), "--section", table.to_str().unwrap()]).status.success());
    let arguments = ["verify", "--json", program, "--sframe", "table"];
    let report: Value = serde_json::from_slice(&run_in(&directory, &arguments).stdout).unwrap();
    let named = report["unverified"].as_array().unwrap().len() as u64;
    assert_eq!(named, 100);
    let number = |key: &str| report[key].as_u64().unwrap();
    assert_eq!(number("more_unverified"), number("missing") + number("unjudged") - named);
    let printed = text(run_in(&directory, &["verify", program, "--sframe", "table"]).stdout);
    let rest = format!("\n  and {} more missing or unjudged\n", number("more_unverified"));
    assert!(printed.contains(&rest), "{printed}");
}

#[test]
fn a_function_that_one_table_has_is_one_line() {
    let directory = objects("one_line");
    for (a, b, side) in [("all.o", "without.o", "A"), ("without.o", "all.o", "B")] {
        let output = run_in(&directory, &["diff", a, b]);
        let expected = format!(".text+0x2 <f2>: .text+0x2..0x9: only in {side}: 2 rows");
        let printed = text(output.stdout);
        assert_eq!((output.status.code(), printed.lines().nth(2)), (Some(1), Some(&expected[..])));
        assert_eq!(printed.lines().count(), 3, "{printed}");
    }
    // The rows are the rows that `lookup` prints.
    let rows: Vec<_> = [".text+0x2", ".text+0x7"]
        .map(|place| json_of(&directory, &["lookup", "--json", "all.o", place])["row"].clone())
        .into();
    let run = run_in(&directory, &["diff", "--json", "all.o", "without.o"]);
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let difference = &report["differences"][0];
    assert_eq!(difference["rows_a"], json!(rows));
    assert_eq!((&difference["rows_b"], &difference["only_in"]), (&json!([]), &json!("a")));
}

/// A wrong address of the table makes every function differ. The message suggests the right address.
#[test]
fn the_address_that_fits_is_named() {
    let directory = scratch("displaced");
    let table = directory.join("table");
    let table = table.to_str().unwrap();
    for (right, given, distance) in
        [("0x0", "0x1000", 0x1000), ("0x2f0", "0x2ec", -4), ("0x2f0", "0x0", -0x2f0)]
    {
        assert!(run(&["linked.so", "--section", table, "--address", right]).status.success());
        let verify = ["verify", "linked.so", "--sframe", table, "--address"];
        let output = run(&[&verify[..], &[given]].concat());
        let printed = text(output.stdout);
        let words = format!(": is --address right? --address {right} fits\n");
        assert!(output.status.code() == Some(1) && printed.contains(&words), "{printed}");
        let json: Value =
            serde_json::from_slice(&run(&[&verify[..], &[given, "--json"]].concat()).stdout).unwrap();
        assert_eq!(json["displaced"], json!({ "distance": distance, "fitting_address": right }));
        let fitting = run(&[&verify[..], &[right]].concat());
        assert!(fitting.status.success() && !text(fitting.stdout).contains("--address "), "{right}");
    }
    // If the table is for other code, no address fits.
    assert!(run(&["both_frames", "--section", table]).status.success());
    let printed = text(run(&["verify", "linked.so", "--sframe", table]).stdout);
    assert!(!printed.contains("fits"), "{printed}");
}

/// A check that has compared nothing must not succeed.
#[test]
fn nothing_was_compared() {
    let directory = scratch("nothing");
    let table = directory.join("table");
    let table = table.to_str().unwrap();
    // A function so far away is out of reach for version 2. The table is written without functions.
    let far = ["--sframe-version", "2", "--address", "0x1000000000"];
    assert!(run(&[&["linked.so", "--section", table][..], &far].concat()).status.success());
    let output = run(&["verify", "linked.so", "--sframe", table]);
    let printed = text(output.stdout);
    assert!(output.status.code() == Some(1), "{printed}");
    assert!(printed.contains("  nothing was compared: the table has none of the functions\n"), "{printed}");
    // Without CFI in a Mach-O file, the rules of the table's readers are checked.
    let directory = unpack("nothing_mach_o", &["l_003_two_same.dylib"]);
    let output = run_in(&directory, &["verify", "l_003_two_same.dylib"]);
    let printed = text(output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("  nothing was compared with CFI: the file has none, "), "{printed}");
    assert!(printed.contains("  __unwind_info: no rule is broken\n"), "{printed}");
}
