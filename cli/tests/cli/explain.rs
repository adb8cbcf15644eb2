//! Tests `explain` with an address: instructions beside rows, marks on instructions, and the frame.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{run, scratch, transcript};

const OBJECT: &str = "explain.o";

fn explained(arguments: &[&str]) -> Value {
    let output = run(&[&["explain", "--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns each mark's kind with the text of the marked instruction.
fn marks(file: &str, address: &str) -> Vec<(String, String)> {
    let explained = explained(&[file, address]);
    let instructions = explained["functions"][0]["instructions"].as_array().unwrap();
    let marks = instructions.iter().flat_map(|one| {
        let marks = one["marks"].as_array().map(Vec::as_slice).unwrap_or_default();
        marks.iter().map(|mark| (text(&mark["kind"]), text(&one["text"])))
    });
    marks.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

#[test]
fn listings() {
    let runs: [&[&str]; 6] = [
        &["explain", OBJECT, "agrees+0x9"],
        &["explain", OBJECT, "prologue_only+10"],
        &["explain", OBJECT, "boundary"],
        &["explain", "explain_aarch64.o", "agrees+8"],
        &["explain", "../sframe/s390x/s_fp_then_ra.gas247.o", ".text+0"],
        &["explain", "../compact-unwind/mc/x02_rbp.o", "__text+1"],
    ];
    insta::assert_snapshot!(runs.map(transcript).join("\n"));
}

#[test]
fn disagreements_are_marked_and_nothing_else() {
    /// File, symbol, and each mark with its instruction.
    type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
    let cases: [Case; 10] = [
        (OBJECT, "agrees", &[]),
        (OBJECT, "no_row", &[("no-row", "push rbx"), ("no-row", "pop rbx")]),
        (OBJECT, "no_instruction", &[("no-instruction", "nop"), ("no-instruction", "ret")]),
        (OBJECT, "mismatch", &[("mismatch", "ret"), ("return", "ret")]),
        (OBJECT, "branch", &[("branch", "je .text+0x3a <branch+0x5>")]),
        // The epilogue: rbp has the caller's value, and the row still has rbp+16.
        (OBJECT, "prologue_only", &[("no-row", "pop rbp")]),
        (OBJECT, "boundary", &[("boundary", "sub rsp, 8")]),
        ("explain_aarch64.o", "agrees", &[]),
        ("explain_aarch64.o", "prologue_only", &[("no-row", "ldp x29, x30, [sp], #0x10")]),
        ("explain_aarch64.o", "no_row", &[("no-row", "sub sp, sp, #0x10"), ("no-row", "add sp, sp, #0x10")]),
    ];
    for (file, address, expected) in cases {
        let expected: Vec<_> =
            expected.iter().map(|(kind, text)| (kind.to_string(), text.to_string())).collect();
        assert_eq!(marks(file, address), expected, "{address}");
    }
}

/// CFI that is exact at calls only has no marks for the rows that the whole file lacks.
#[test]
fn what_lint_accepts_has_no_mark() {
    for name in ["x12_fl_24.o", "x14_fl_push_rbx.o", "x58_two_fdes.o"] {
        let file = format!("../compact-unwind/mc/{name}");
        let output = run(&["lint", "--json", &file]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["calls_only"], &report["wrong"]), (&json!(true), &json!(0)), "{name}");
        assert_eq!(marks(&file, "__text+0"), [], "{name}");
    }
}

#[test]
fn a_planted_row_is_marked() {
    let object = fs::read(Path::new("../corpora/container").join(OBJECT)).unwrap();
    // `DW_CFA_def_cfa_offset 16` after the first instruction of `agrees`. The test changes 16 to 24.
    let rows = [0x41, 0x0e, 16, 0x86, 2];
    let at = object.windows(rows.len()).position(|window| window == rows).unwrap();
    let mut planted = object;
    planted[at + 2] = 24;
    let path = scratch("planted").join(OBJECT);
    fs::write(&path, planted).unwrap();
    let found = marks(path.to_str().unwrap(), "agrees");
    // The table was not changed, and still has the right row.
    assert!(found.contains(&("mismatch".to_string(), "mov rbp, rsp".to_string())), "{found:?}");
    assert!(found.contains(&("table".to_string(), "mov rbp, rsp".to_string())), "{found:?}");
}

#[test]
fn json_has_instructions_and_the_frame() {
    let function = &explained(&[OBJECT, "agrees+5"])["functions"][0];
    let instruction = &function["instructions"][3];
    assert_eq!(instruction["pc"], "0x5");
    assert_eq!([&instruction["bytes"], &instruction["text"]], ["4883e4e0", "and rsp, -0x20"]);
    assert_eq!(
        [&instruction["here"], &instruction["changed"], &instruction["table_differs"]],
        [true, true, false]
    );
    assert_eq!(instruction["row"]["cfa"], json!({ "base": "rbp", "offset": 16, "stored": false }));
    assert_eq!(instruction["row"]["saved"], json!({ "rbx": "at CFA-24" }));
    let slots = [("return address", -8), ("rbp", -16), ("rbx", -24)];
    let slots = slots.map(|(register, offset)| json!({ "offset": offset, "register": register }));
    assert_eq!(
        function["frame"],
        json!({
            "pc": "0x5", "cfa": "rbp+16", "slots": slots,
            "pointers": { "rbp": -16, "rsp": -24 }, "elsewhere": {},
        })
    );
    assert_eq!(function["marked"], 0);
}

#[test]
fn symbols_are_addresses() {
    let by = |address| text(&explained(&[OBJECT, address])["functions"][0]["start"]);
    assert_eq!(by("branch"), by("branch+0x3"));
    assert_eq!(by("agrees"), ".text+0x0");
    let error = |arguments: &[&str]| {
        let output = run(&[&["explain"], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&[OBJECT, "absent"]).contains("no symbol of a function has the name absent"));
    let several = error(&["comdat.ld.o", "own"]);
    assert!(several.contains("several symbols have the name own, choose one by its place: "), "{several}");
}
