//! Tests CFI that DWARF does not define: what a conversion counts, and what `verify` reports.

use serde_json::{Value, json};

use crate::program::run;

/// Runs the command. Returns status and JSON report.
fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = run(&[arguments, &["--json"]].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn gas(name: &str) -> String {
    format!("../sframe/x86_64/{name}.gas247.o")
}

/// DWARF does not define an offset change while the CFA is an expression. gas omits the function whose CFA is `rsp+8`
/// by expression, and writes a row for the function whose CFA is `*(rbp-8)`.
#[test]
fn an_expression_is_no_base() {
    for (name, in_table) in [("x_escape_sum_offset", 0), ("x_escape_expr_offset", 1)] {
        let name = gas(name);
        let version_2 = ["--sframe-version", "2"];
        for layout in [&[][..], &["--merge-functions", "9"], &version_2] {
            let (status, converted) = json(&[&[&name[..], "--verify"], layout].concat());
            // The only function is omitted, so nothing could be compared.
            assert_eq!(status, Some(1), "{converted}");
            // Version 2 cannot represent the load, which comes first in the function, so the load is the reason.
            let is_load = in_table == 1 && layout == version_2;
            let reason = if is_load { "cfa-memory" } else { "cfa-without-base" };
            assert_eq!(converted["reasons"], json!({ reason: 1 }));
            assert_eq!(converted["outside_dwarf"], 1);
            let verified = &converted["verify"];
            assert_eq!((&verified["unjudged"], &verified["unjudged_in_table"]), (&json!(1), &json!(0)));
        }
        let (status, verified) = json(&["verify", &name]);
        // No other function of the object could be compared.
        assert_eq!(status, Some(1), "{verified}");
        assert_eq!(verified["unjudged"], 1);
        assert_eq!(verified["unjudged_in_table"], in_table);
        // gimli evaluates no row after the undefined change, not even after the next `DW_CFA_def_cfa`.
        assert_eq!(verified["pcs_unjudged_in_table"], 2 * in_table);
    }
    let output = run(&[&gas("x_escape_expr_offset")]);
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains("\n  CFI not defined by DWARF: 1 function omitted\n"), "{printed}");
    let output = run(&["verify", &gas("x_escape_expr_offset")]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains(" 0 missing, 1 unjudged, 1 of them in the table\n"), "{printed}");
}

/// These instructions are unknown to DWARF and gimli, but every other reader gives them the same meaning. The judge gives them to
/// gimli in another form.
#[test]
fn instructions_that_only_dwarf_does_not_define_are_judged() {
    for name in ["x_escape_advance8", "x_escape_negative_offset", "x_escape_negative_offset_fp"] {
        let (status, converted) = json(&[&gas(name), "--verify"]);
        assert_eq!((status, &converted["reasons"]), (Some(0), &json!({})), "{name}");
        let verified = &converted["verify"];
        assert_eq!(
            [&verified["unjudged"], &verified["missing"], &converted["outside_dwarf"]],
            [0, 0, 0],
            "{name}"
        );
    }
}
