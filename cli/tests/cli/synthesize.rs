//! `--synthesize`: rows of functions that no CFI covers. `synthesize.s` has both: functions without CFI, and the CFI that an
//! author would write, of which gas has made a table.

use std::collections::BTreeMap;
use std::process::Command;

use cfipack_testkit::needs;
use serde_json::{Value, json};

use crate::objects::printed;
use crate::program::{scratch, transcript};

fn converted(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(0, &[&["--json"], arguments].concat())).unwrap()
}

#[test]
fn rows_from_code_are_those_that_gas_makes_of_written_cfi() {
    let path = scratch("synthesize").join("out.o");
    let path = path.to_str().unwrap();
    printed(0, &["synthesize.o", "--synthesize", "-o", path]);
    assert_eq!(printed(0, &["dump", path]), printed(0, &["dump", "synthesize.described.o"]));
    let verified = printed(0, &["verify", path]);
    assert!(verified.contains("2 equal, 0 different, 0 missing\n"), "{verified}");
    assert!(verified.contains("judged by code: functions without CFI"), "{verified}");
    // Without the option nothing of them is in the table.
    printed(0, &["synthesize.o", "-o", path]);
    assert!(printed(0, &["dump", path]).contains("Num FDEs: 2\n"));
}

/// Functions of the source that get no rows have a reason each; two are entered elsewhere, one of them by a function with CFI,
/// and two jump into others.
#[test]
fn what_is_not_synthesized_has_a_reason() {
    let report = converted(&["synthesize.o", "--synthesize"]);
    let reasons = json!({
        "cfa-not-known": 1, "entered-elsewhere": 2, "indirect-jump": 1, "into-function": 2, "never-returns": 1,
        "no-entry": 1, "odd-call": 1, "register-not-restored": 1, "stack-at-return": 1, "system-call": 1,
    });
    let expected = json!({ "functions": 8, "omitted": 12, "reasons": reasons });
    assert_eq!(report["synthesized"], expected);
    // They are counted apart.
    assert_eq!((&report["functions"], &report["omitted"]), (&json!(2), &json!(0)));
    assert_eq!(converted(&["synthesize.o"]).get("synthesized"), None);
}

/// A table with a wrong row for code that no CFI covers is found out.
#[test]
fn a_changed_row_is_not_judged_right() {
    let directory = scratch("synthesize-changed");
    let path = directory.join("out.o");
    let path = path.to_str().unwrap();
    printed(0, &["synthesize.o", "--synthesize", "-o", path]);
    let section = directory.join("table");
    let section = section.to_str().unwrap();
    printed(0, &["synthesize.o", "--synthesize", "--section", section]);
    let table = std::fs::read(section).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    // The rows of the table, which no relocation changes, follow its header and FDEs.
    let rows = &table[table.len() - 16..];
    let at = bytes.windows(rows.len()).position(|window| window == rows).unwrap();
    let changed = (0..rows.len()).filter(|index| {
        let before = bytes[at + index];
        bytes[at + index] ^= 8;
        std::fs::write(path, &bytes).unwrap();
        bytes[at + index] = before;
        let output = crate::program::run(&["verify", path]);
        !output.status.success()
    });
    // The only row of `leaf` starts after its end then: the table says nothing.
    assert_eq!(changed.count(), rows.len() - 1);
}

#[test]
fn reports() {
    let runs: [&[&str]; 4] = [
        &["explain", "synthesize.o", "twice"],
        &["explain", "synthesize.o", "odd_call+1"],
        &["synthesize.o", "--synthesize", "--verify"],
        &["synthesize.o", "--synthesize", "--merge-functions", "2"],
    ];
    insta::assert_snapshot!(runs.map(transcript).join("\n"));
}

/// A program whose own code has no CFI: in its stripped copy calls alone show where functions start. All rows that they give
/// are those that the symbols of the program itself give.
#[test]
#[ignore = "needs gcc and strip"]
fn calls_lead_to_functions_of_a_stripped_program() {
    [("cc", "gcc"), ("strip", "binutils")].iter().for_each(|(tool, package)| needs::program(tool, package));
    let directory = scratch("synthesize-stripped");
    let source = directory.join("program.c");
    let text: String = (0..40).map(function).collect();
    let main = "int main(int argc, char **argv) { sink = f39(argc); return 0; }\n";
    std::fs::write(&source, format!("volatile long sink;\n{text}{main}")).unwrap();
    let (program, stripped) = (directory.join("program"), directory.join("stripped"));
    let flags = ["-O2", "-fcf-protection=none", "-fno-asynchronous-unwind-tables", "-fno-ipa-icf", "-o"];
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    run(Command::new("cc").args(flags).args([&program, &source]));
    run(Command::new("strip").arg("-o").args([&stripped, &program]));
    let rows = |path: &std::path::Path| -> BTreeMap<String, Vec<String>> {
        let with = path.with_extension("sframe");
        let (path, with) = (path.to_str().unwrap(), with.to_str().unwrap());
        printed(0, &[path, "--synthesize", "-o", with]);
        let text = printed(0, &["dump", with]);
        let functions = text.split("func idx").skip(1).map(|function| {
            let (head, rows) = function.split_once('\n').unwrap();
            let pc = head.split("pc = ").nth(1).unwrap().split(',').next().unwrap();
            (pc.to_owned(), rows.trim_end().lines().map(str::to_owned).collect())
        });
        functions.collect()
    };
    let (named, found) = (rows(&program), rows(&stripped));
    for (start, rows) in &found {
        assert_eq!(named.get(start), Some(rows), "{start}");
    }
    assert!(found.len() > 40, "{} of {}", found.len(), named.len());
    let verified = printed(0, &["verify", stripped.with_extension("sframe").to_str().unwrap()]);
    assert!(verified.contains("judged by code: functions without CFI"), "{verified}");
}

/// A function that the one after it calls; every third has a frame, and every fifth two ways out.
fn function(number: usize) -> String {
    let before = number.checked_sub(1).map_or("a + sink".to_owned(), |before| format!("f{before}(a + sink)"));
    let frame =
        if number.is_multiple_of(3) { "long all[9]; all[a & 7] = a; a += all[sink & 7];" } else { "" };
    let leaves = if number.is_multiple_of(5) { "if (a > 7) return a + 1;" } else { "" };
    format!(
        "__attribute__((noinline, noclone)) static long f{number}(long a) {{ {frame} {leaves} long r = {before}; return r + a * {}; }}\n",
        number + 2
    )
}
