//! Tests rows that only a file's old table has. A new table keeps them if the code proves them, and otherwise a warning
//! counts their bytes.

use std::fs;

use crate::compact::text;
use crate::objects::printed;
use crate::program::{run, scratch};

/// ld has written rows for `.plt` (0x230 to 0x250), which are right, and for `.plt.got` (0x250), where the CFA is rsp+8 and
/// not rsp+16. No CFI covers the stubs.
#[test]
fn right_rows_of_stubs_are_kept_and_wrong_rows_are_lost() {
    let directory = scratch("old_rows_stubs");
    let path = directory.join("new.so");
    let new = path.to_str().unwrap();
    let wrong = printed(1, &["verify", "plt_rows.so"]);
    assert!(wrong.contains("pcs: 57: 17 equal, 8 different, 0 missing, 32 judged by code\n"), "{wrong}");
    assert!(wrong.contains("  0x250: 0x250..0x258: CFI: no function; table: CFA = rsp+16"), "{wrong}");

    let output = run(&["plt_rows.so", "-o", new]);
    let report = text(output.stderr);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.starts_with(
        "warning: plt_rows.so: the old table had rows for 8 bytes of code, and the new table has none; --synth"
    ));
    assert!(report.contains("  without CFI: 2 functions kept from the old table\n"), "{report}");
    let verified = printed(0, &["verify", new]);
    assert!(
        verified.contains("pcs: 49: 17 equal, 0 different, 0 missing, 32 judged by code\n"),
        "{verified}"
    );
    assert!(printed(1, &["gaps", new]).contains("49 of 57 bytes"));
    // objdump shows the push of an entry's index at 0x246, and the jump after it at 0x24b.
    let rows = printed(0, &["lookup", new, "0x230", "0x236", "0x24a", "0x24b"]);
    let cfas: Vec<_> = rows.lines().map(|line| line.split("CFA = ").nth(1).unwrap()).collect();
    let cfas: Vec<_> = cfas.iter().map(|rest| rest.split(',').next().unwrap()).collect();
    assert_eq!(cfas, ["rsp+16", "rsp+24", "rsp+8", "rsp+16"]);

    // The new table is the old table of the next run, which loses nothing.
    let again = directory.join("again.so");
    let output = run(&[new, "-o", again.to_str().unwrap()]);
    assert!(!text(output.stderr).contains("warning"));
    assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
    assert_eq!(run(&["plt_rows.so", "-o", new, "--strict"]).status.code(), Some(1));
}

#[test]
fn json_counts_the_rows() {
    let path = scratch("old_rows_json").join("new.so");
    let report = printed(0, &["plt_rows.so", "--json", "-o", path.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let expected = serde_json::json!({ "kept_functions": 2, "kept_bytes": 32, "lost_bytes": 8 });
    assert_eq!(report["old_rows"], expected);
    let report = printed(0, &["both_frames", "--json", "-o", path.to_str().unwrap()]);
    assert!(!report.contains("\"old_rows\""), "{report}");
}

/// Rows that `--synthesize` made are kept when the file is converted without it, in linked files and objects.
#[test]
fn rows_from_code_are_kept() {
    let directory = scratch("old_rows_code");
    let [made, kept] = ["made", "kept"].map(|name| directory.join(name));
    let [made, kept] = [&made, &kept].map(|path| path.to_str().unwrap());
    for file in ["synthesize.o", "plt_rows.so"] {
        printed(0, &[file, "--synthesize", "-o", made]);
        printed(0, &[made, "-o", kept]);
        assert_eq!(printed(0, &["dump", made]), printed(0, &["dump", kept]), "{file}");
        printed(0, &["verify", kept]);
    }
}
