//! `--synthesize`: rows of functions that no CFI covers. `synthesize.s` has both: functions without CFI, and the CFI that an
//! author would write, of which gas has made a table.

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

/// Each function of the source that gets no rows has a reason of its own; two are entered elsewhere, one of them by a
/// function with CFI.
#[test]
fn what_is_not_synthesized_has_a_reason() {
    let report = converted(&["synthesize.o", "--synthesize"]);
    let reasons = json!({
        "cfa-not-known": 1, "entered-elsewhere": 2, "indirect-jump": 1, "into-function": 1, "never-returns": 1,
        "no-entry": 1, "odd-call": 1, "register-not-restored": 1, "stack-at-return": 1, "system-call": 1,
    });
    let expected = json!({ "functions": 3, "omitted": 11, "reasons": reasons });
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
