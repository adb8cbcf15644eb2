//! Tests the JSON reports: each names its schema, and has the promised fields.

use crate::program::{run, scratch};
use serde_json::{Value, json};

fn parse(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Picks the named fields of an object.
fn fields(value: &Value, names: &[&str]) -> Value {
    names.iter().map(|&name| (name, value.get(name).unwrap_or_else(|| panic!("no {name}")).clone())).collect()
}

#[test]
fn convert() {
    let summary = parse(&["linked.so", "--json"]);
    let names = ["schema", "file", "functions", "converted", "omitted", "reasons", "ambiguous"];
    assert_eq!(
        fields(&summary, &names),
        json!({ "schema": "cfipack/convert/1", "file": "linked.so", "functions": 5, "converted": 5,
            "omitted": 0, "reasons": {}, "ambiguous": 0 })
    );
    // From readelf -S: .eh_frame has 0x9c bytes, .eh_frame_hdr 0x34.
    let bytes = fields(&summary["bytes"], &["eh_frame", "eh_frame_hdr"]);
    assert_eq!(bytes, json!({ "eh_frame": 0x9c, "eh_frame_hdr": 0x34 }));
    assert!(summary["bytes"]["sframe"].as_u64().unwrap() > 28);
}

#[test]
fn convert_gives_the_relocations_that_gas_wrote() {
    let summary = parse(&["linkable.o", "--layout", "gnu", "--json"]);
    // The expected relocations are from readelf -r linkable.o, section .rela.sframe. The sections are from readelf -S.
    let relocation = |offset, section, symbol, addend| {
        json!({ "offset": offset, "type": "R_X86_64_PC64", "section_index": section, "symbol": symbol,
            "addend": addend })
    };
    assert_eq!(
        summary["relocations"],
        json!([
            relocation("0x1c", 2, ".text", 0),
            relocation("0x2c", 2, ".text", 0xb),
            relocation("0x3c", 6, ".text.second", 0),
            relocation("0x4c", 9, ".text.unlikely", 1),
        ])
    );
    assert_eq!(summary["bytes"]["sframe"], 136);
}

#[test]
fn verify() {
    let report = parse(&["verify", "--json", "linked.so"]);
    let names = [
        "schema",
        "functions",
        "equal",
        "different",
        "missing",
        "pcs",
        "pcs_equal",
        "pcs_different",
        "pcs_missing",
        "reasons",
        "differences",
    ];
    // .plt has 32 bytes. The functions `first` to `fourth` have 11 + 1 + 2 + 2 bytes.
    assert_eq!(
        fields(&report, &names),
        json!({ "schema": "cfipack/verify/1", "functions": 5, "equal": 5, "different": 0, "missing": 0,
            "pcs": 48, "pcs_equal": 48, "pcs_different": 0, "pcs_missing": 0, "reasons": {},
            "differences": [] })
    );
}

#[test]
fn dump_and_lookup() {
    let table = parse(&["dump", "--json", "linked.so"]);
    assert_eq!(
        fields(&table, &["schema", "file", "section", "address", "version", "num_fdes", "num_fres"]),
        json!({ "schema": "cfipack/dump/1", "file": "linked.so", "section": ".sframe", "address": "0x370",
            "version": 3, "num_fdes": 6, "num_fres": 11 })
    );
    let stubs = &table["functions"][1];
    assert_eq!(
        fields(stubs, &["index", "start", "size", "type", "signal_frame", "repeats"]),
        json!({ "index": 1, "start": "0x270", "size": 16, "type": "default", "signal_frame": false,
            "repeats": 16 })
    );
    let answer = parse(&["lookup", "--json", "linked.so", "0x285"]);
    let function = json!({ "start": "0x283", "size": 11, "signal_frame": false, "repeats": null });
    let saved = |offset| json!({ "base": "cfa", "offset": offset, "stored": true });
    let row = json!({ "start": 1, "cfa": { "base": "rsp", "offset": 16, "stored": false },
        "return_address": saved(-8), "frame_pointer": saved(-16) });
    assert_eq!(
        fields(&answer, &["schema", "pc", "function", "row"]),
        json!({ "schema": "cfipack/lookup/1", "pc": "0x285", "function": function, "row": row })
    );
    assert_eq!(parse(&["lookup", "--json", "linked.so", "1"])["row"], Value::Null);
}

#[test]
fn diff_stats_and_explain() {
    let diff = parse(&["diff", "--json", "linked.so", "sectionless.so"]);
    let names = ["schema", "equal", "different", "only_a", "only_b", "pcs_equal", "differences"];
    assert_eq!(
        fields(&diff, &names),
        json!({ "schema": "cfipack/diff/1", "equal": 6, "different": 0, "only_a": 0, "only_b": 0,
            "pcs_equal": 48, "differences": [] })
    );
    let elsewhere = scratch("json_diff").join("table");
    let elsewhere = elsewhere.to_str().unwrap();
    assert!(run(&["linked.so", "--section", elsewhere]).status.success());
    let output = run(&["diff", "--json", "linked.so", elsewhere, "--address-b", "0x1000000"]);
    let diff: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The PLT starts at 0x260.
    assert_eq!(
        fields(&diff["differences"][0], &["start", "end", "function", "words", "only_in"]),
        json!({ "start": "0x260", "end": "0x270", "function": "0x260", "words": "only in A: 2 rows", "only_in": "a" })
    );
    let stats = parse(&["stats", "--json", "linked.so"]);
    assert_eq!(
        fields(&stats, &["schema", "source"]),
        json!({ "schema": "cfipack/stats/1", "source": "table" })
    );
    // 28 bytes of header, 6 entries of 16, 66 bytes of FREs: readelf -S prints 0xbe.
    let bytes = &stats["tables"][0]["bytes"];
    assert_eq!(
        fields(bytes, &["total", "header", "index"]),
        json!({ "total": 0xbe, "header": 28, "index": 96 })
    );
    let coverage = fields(&stats["coverage"], &["functions", "covered", "reasons"]);
    assert_eq!(coverage, json!({ "functions": 5, "covered": 5, "reasons": {} }));
    let explained = parse(&["explain", "--json", "linkable.o", ".text.second+1"]);
    assert_eq!(explained["schema"], "cfipack/explain/1");
    let function = fields(&explained["functions"][0], &["start", "size", "symbol", "reason"]);
    assert_eq!(
        function,
        json!({ "start": ".text.second+0x0", "size": 2, "symbol": "second", "reason": null })
    );
}

#[test]
fn a_plt_is_explained_as_it_repeats() {
    // The PLT starts at 0x260 and has one stub, at 0x270.
    let explained = parse(&["explain", "--json", "linked.so", "0x270"]);
    let rows = explained["functions"][0]["rows"].as_array().unwrap();
    let seen: Vec<_> = rows.iter().map(|row| (row["start"].clone(), row["repeats"].clone())).collect();
    let expected = [(0, None), (6, None), (16, Some(16)), (27, Some(16))];
    assert_eq!(seen, expected.map(|(start, repeats): (u32, Option<u8>)| (json!(start), json!(repeats))));
}

#[test]
fn a_reason_is_one_that_holds_for_the_table() {
    // The CFA is based on r10, so the function needs a flex FDE. Version 3 has flex FDEs, version 2 does not.
    let object = "../sframe/x86_64/x_def_cfa_r10.gas247.o";
    // A conversion knows the reason, and must report it once.
    for options in [&["--no-flex"][..], &["--sframe-version", "2"], &["--layout", "gnu", "--no-flex"]] {
        let summary = parse(&[&[object, "--verify", "--json"], options].concat());
        assert_eq!(summary["omitted"], 1, "{options:?}");
        assert_eq!(summary["verify"]["reasons"], summary["reasons"], "{options:?}");
    }
}

/// Programs that use the libraries get the same names of reasons as the command's reports have.
#[test]
fn omitted_functions_of_the_libraries() {
    use cfipack_format::{Key, Reason, Unsupported};
    let omitted = Unsupported { function: Key(0x1000), offset: 4, reason: Reason::FunctionSize };
    assert_eq!(
        serde_json::to_value(omitted).unwrap(),
        json!({ "function": "0x1000", "offset": 4, "reason": "function-size",
            "words": Reason::FunctionSize.to_string() })
    );
}
