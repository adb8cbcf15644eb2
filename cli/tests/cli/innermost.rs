//! Tests rows that can only unwind the innermost frame.

use serde_json::{Value, json};

use crate::program::run;

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(run(arguments).stdout).unwrap()
}

/// By its source, the CFA is based on r10 from `lea 8(%rsp),%r10` (5 bytes) on, for a while.
const DRAP: &str = "../sframe/x86_64/x_drap.gas247.o";

#[test]
fn functions_are_counted_and_the_register_is_named() {
    for (file, count) in [(DRAP, 1), ("linked.so", 0)] {
        // The count is the same in gas's own table and in the converted table.
        assert_eq!(json(&["stats", file])["tables"][0]["innermost_only"], count, "{file}");
    }
    assert!(text(&["stats", DRAP]).contains(", 1 unwound as innermost frames only\n"));

    let innermost = json!({ "pc": ".text+0x5", "register": "r10", "value": "CFA" });
    for address in [&[][..], &[".text+0"]] {
        let explained = json(&[&["explain", DRAP], address].concat());
        let [function] = &explained["functions"].as_array().unwrap()[..] else { panic!("{explained}") };
        assert_eq!(function["innermost_only"], innermost);
        assert_eq!((&function["start"], &function["reason"]), (&json!(".text+0x0"), &Value::Null));
    }
    let words = "its CFA depends on r10, which tables do not restore\n";
    let listed = format!(".text+0x0 <f>: unwound as an innermost frame only: from .text+0x5 on, {words}");
    assert_eq!(text(&["explain", DRAP]), listed);
    let one = text(&["explain", DRAP, ".text+0"]);
    assert!(
        one.ends_with(&format!("\n  unwound as an innermost frame only: from .text+0x5 on, {words}")),
        "{one}"
    );
    assert_eq!(json(&["explain", "linked.so"])["functions"], json!([]));
}
