//! Tests how much of the code has rows: every report gives the same figures, and limits work.

use std::fs;
use std::path::Path;

#[cfg(target_arch = "x86_64")]
use cfipack_testkit::rustc::assemble;
use serde_json::{Value, json};

use crate::program::{corpus, run_in, scratch};

/// Writes a copy of `linked.so` whose table ends `first`, at 0x287, after 4 of its 11 bytes.
fn shortened(directory: &Path) {
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    let field = 0x370 + 28 + 3 * 16 + 8;
    assert_eq!(bytes[field], 11);
    bytes[field] = 4;
    fs::write(directory.join("shortened"), bytes).unwrap();
}

/// Runs the command in a directory. Returns status, standard output and standard error.
fn ran(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run_in(directory, arguments);
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), stdout, stderr)
}

fn json_of(directory: &Path, arguments: &[&str]) -> Value {
    let (_, stdout, stderr) = ran(directory, arguments);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stderr}"))
}

/// objdump shows 50 bytes of code in linked.so. The nops at 0x280 and 0x291 are padding.
#[test]
fn every_report_has_the_figures_of_gaps() {
    let directory = scratch("code_coverage");
    shortened(&directory);
    fs::copy(corpus().join("linked.so"), directory.join("linked.so")).unwrap();
    let (status, text, _) = ran(&directory, &["stats", "shortened"]);
    assert_eq!(status, Some(0));
    assert!(text.contains("  code: 41 of 48 bytes covered (85.42 %)\n"), "{text}");
    let expected = json!({"code": 50, "covered": 41, "gap_bytes": 7, "padding_bytes": 2});
    assert_eq!(json_of(&directory, &["stats", "--json", "shortened"])["coverage"]["code_coverage"], expected);
    let gaps = json_of(&directory, &["gaps", "--json", "shortened"]);
    assert_eq!(gaps["code_coverage"], expected);
    let whole = json!({"code": 50, "covered": 48, "gap_bytes": 0, "padding_bytes": 2});
    let line = "  code: 48 of 48 bytes covered (100.00 %)\n";
    for arguments in [&["linked.so"][..], &["linked.so", "-o", "copy"]] {
        // Without an option that needs coverage the code is not read, so the figures are not printed.
        let (_, _, text) = ran(&directory, arguments);
        assert!(!text.contains("code:") && !text.contains("of the code"), "{text}");
        assert_eq!(json_of(&directory, &[arguments, &["--json"]].concat()).get("code_coverage"), None);
        for option in [&["--strict"][..], &["--min-code-coverage", "99"]] {
            let (_, _, text) = ran(&directory, &[arguments, option].concat());
            assert!(text.contains(line), "{text}");
            assert_eq!(
                json_of(&directory, &[arguments, option, &["--json"]].concat())["code_coverage"],
                whole
            );
        }
    }
}

#[test]
fn a_limit_is_status_1() {
    let directory = scratch("code_limit");
    shortened(&directory);
    for (percent, status) in [("85", 0), ("85.4%", 0), ("86", 1), ("100", 1)] {
        let (found, _, text) = ran(&directory, &["stats", "shortened", "--min-code-coverage", percent]);
        assert_eq!(found, Some(status), "{percent}: {text}");
        let is_named = text.contains("warning: shortened: less than ") && text.contains("covered: 85.42 %\n");
        assert_eq!(is_named, status == 1, "{text}");
    }
}

/// The object has one function of one byte with CFI, then 5000 bytes of code without CFI, as a Go program has.
#[test]
#[cfg(target_arch = "x86_64")]
fn little_coverage_is_a_warning() {
    let directory = scratch("little_code");
    let source = ".globl f, g\nf: .cfi_startproc\nret\n.cfi_endproc\ng: .skip 4999, 0xc3\n";
    assemble(&directory, source, "f.o");
    let line = "  code: 1 of 5000 bytes covered (0.02 %)\n";
    let warning = "warning: f.o: only 0.02 % of the code is covered: gaps --cfi lists ";
    let to_file = ["f.o", "-o", "g.o"];
    for arguments in [&["f.o"][..], &to_file, &["stats", "f.o"]] {
        let (status, stdout, stderr) = ran(&directory, arguments);
        assert_eq!(status, Some(0));
        assert!(stderr.contains(warning) && (stdout + &stderr).contains(line), "{arguments:?}: {stderr}");
        for option in [&["--strict"][..], &["--min-code-coverage", "1"]] {
            assert_eq!(ran(&directory, &[arguments, option].concat()).0, Some(1), "{arguments:?} {option:?}");
        }
    }
    let (status, stdout, _) = ran(&directory, &["gaps", "--cfi", "f.o"]);
    assert!(status == Some(1) && stdout.contains("<g>: 4999 bytes"), "{stdout}");
}

/// `objcopy --only-keep-debug` gives loaded sections the type `SHT_NOBITS`. The test makes such a file.
#[test]
fn a_debug_file_is_named_as_such() {
    let directory = scratch("debug_file");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..][..8].try_into().unwrap());
    let (headers, count) = (number(40) as usize, u16::from_le_bytes([bytes[60], bytes[61]]));
    for header in (0..usize::from(count)).map(|index| headers + 64 * index) {
        let is_allocated = bytes[header + 8] & 2 != 0;
        if is_allocated && matches!(bytes[header + 4], 1 | 0xf4) {
            bytes[header + 4..][..4].copy_from_slice(&8_u32.to_le_bytes());
        }
    }
    fs::write(directory.join("x.debug"), bytes).unwrap();
    for arguments in [
        &["x.debug"][..],
        &["x.debug", "-o", "out"],
        &["stats", "x.debug"],
        &["gaps", "x.debug"],
        &["verify", "x.debug"],
        &["explain", "x.debug"],
        &["lookup", "x.debug", "1"],
    ] {
        let (status, _, text) = ran(&directory, arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {text}");
        assert!(text.starts_with("error: x.debug: a debug file: "), "{arguments:?}: {text}");
    }
    let (status, _, text) = ran(&directory, &["--in-place", "x.debug"]);
    assert!(status == Some(0) && text.starts_with("x.debug: skipped: a debug file"), "{text}");
    assert_eq!(ran(&directory, &["--in-place", "--strict", "x.debug"]).0, Some(1));
}
