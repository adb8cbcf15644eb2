//! Tests the findings of `lint` about records: FDEs, and their index in `.eh_frame_hdr`.
//!
//! Each test damages a copy of a library that ld linked. The places are as `readelf` prints them: the index is at 0x298
//! with entries of 8 bytes from 0x2a4 on, for 0x260 (the PLT), `fourth` at 0x281, `first` at 0x283, `third` at 0x28e and
//! `second` at 0x28f. `.eh_frame` is at 0x2d0. Offsets in the file are addresses.

use std::fs;

use serde_json::Value;

use crate::objects::{gas, printed};
use crate::program::{corpus, run, scratch};

const ENTRIES: usize = 0x2a4;

/// The size fields of the FDEs of `first`, `third` and `second`.
const FIRST: usize = 0x2d0 + 0x40 + 12;
const THIRD: usize = 0x2d0 + 0x60 + 12;
const SECOND: usize = 0x2d0 + 0x74 + 12;

/// Returns kind, symbol and record of every finding after `damage`.
fn found(name: &str, damage: impl FnOnce(&mut [u8])) -> Vec<[String; 3]> {
    let file = scratch(name).join("damaged.so");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    damage(&mut bytes);
    fs::write(&file, bytes).unwrap();
    let output = run(&["lint", "--json", file.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!findings.is_empty())), "{report}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let keys = ["kind", "symbol", "record"];
    findings.iter().map(|finding| keys.map(|key| text(&finding[key]))).collect()
}

/// Returns kind, symbol and record of a single finding.
fn one(name: &str, damage: impl FnOnce(&mut [u8])) -> [String; 3] {
    let mut all = found(name, damage);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn records_as_a_linker_writes_them_are_right() {
    assert!(found("records_right", |_| {}).is_empty());
}

#[test]
fn entries_of_the_index_ascend() {
    let exchanged = one("records_order", |bytes| {
        let (fourth, first) = bytes[ENTRIES + 8..ENTRIES + 24].split_at_mut(8);
        fourth.swap_with_slice(first);
    });
    assert_eq!(exchanged, ["index-order", "fourth", ".eh_frame_hdr+0x1c"]);
}

#[test]
fn entries_of_the_index_lead_to_their_fdes() {
    let third = ENTRIES + 3 * 8 + 4;
    let other = one("records_entry", |bytes| bytes.copy_within(third + 8..third + 12, third));
    assert_eq!(other, ["index-entry", "third", ".eh_frame_hdr+0x24"]);
    let none = one("records_no_entry", |bytes| bytes[third] += 4);
    assert_eq!(none, other);
}

#[test]
fn every_fde_has_an_entry() {
    let missing = one("records_missing", |bytes| bytes[0x298 + 8] -= 1);
    assert_eq!(missing, ["index-missing", "second", ".eh_frame+0x74"]);
}

/// A search for 0x28e finds the empty FDE, and no other.
#[test]
fn empty_fdes_hide_no_code() {
    let hidden = one("records_hidden", |bytes| {
        bytes[FIRST] += 1;
        bytes[THIRD] = 0;
    });
    assert_eq!(hidden, ["hidden-fde", "third", ".eh_frame_hdr+0x24"]);
}

#[test]
fn fdes_describe_their_function_and_nothing_else() {
    let overlap = one("records_overlap", |bytes| bytes[FIRST] += 1);
    assert_eq!(overlap, ["overlap", "third", ".eh_frame+0x60"]);
    let outside = one("records_outside", |bytes| bytes[SECOND + 1] = 0x10);
    assert_eq!(outside, ["outside-code", "", ".eh_frame+0x74"]);
    let uncovered = one("records_uncovered", |bytes| bytes[FIRST] -= 1);
    assert_eq!(uncovered, ["uncovered", "first+0xa", ""]);
}

/// The stubs of the PLT are entered at their starts and after their jumps, and the first stub by the others.
#[test]
fn plts_are_decided() {
    let printed = printed(0, &["lint", "--fail-undecided", "linked.so"]);
    assert!(printed.contains(": 5 functions decided, 0 not; 0 with wrong CFI"), "{printed}");
}

/// The bytes are those of GNU ld's stub for TLS descriptors: `endbr64; push; jmp`. The expression of the PLT counts the pushed
/// word from the 11th byte on, and the `jmp` is at the 10th. This is one fault.
#[test]
fn the_stub_of_tls_descriptors_has_one_finding() {
    let file = scratch("tls_descriptors").join("linked.so");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    let pushed = bytes.windows(6).position(|window| window == [0x68, 0, 0, 0, 0, 0xe9]).unwrap();
    let stub = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x35, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0];
    bytes[pushed - 6..pushed + 10].copy_from_slice(&stub);
    fs::write(&file, bytes).unwrap();
    let report: Value =
        serde_json::from_slice(&run(&["lint", "--json", file.to_str().unwrap()]).stdout).unwrap();
    let kinds: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|finding| &finding["kind"]).collect();
    assert_eq!(kinds, ["no-row"]);
}

/// gas wrote the object. The readers are those of the table, and `--readers` alone takes all of them.
#[test]
fn readers_that_do_not_read_a_record_are_named() {
    let object = &gas("x_escape_args_sp.gas247");
    let findings = |option: &str| {
        let output = run(&["lint", "--json", option, object]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        assert_eq!(output.status.code(), Some(i32::from(!findings.is_empty())), "{report}");
        findings
    };
    let all = findings("--readers");
    let keys = |finding: &Value| ["kind", "symbol"].map(|key| finding[key].as_str().unwrap().to_owned());
    assert_eq!(all.iter().map(keys).collect::<Vec<_>>(), [["unread", "f"]]);
    let words = all[0]["words"].as_str().unwrap();
    assert!(words.starts_with("GNU_args_size: pyelftools 0.33 prints no row (ValueError"), "{words}");
    assert_eq!(findings("--readers=pyelftools,gdb").len(), 1);
    printed(0, &["lint", "--readers=gdb", "--function", "f", object]);
    printed(1, &["lint", "--readers=gdb", "--function", "nobody", object]);
    assert!(findings("--readers=gdb").is_empty());
    // Only `--readers` reports the kind, and no other.
    for arguments in [&["--kind", "unread"][..], &["--readers", "--kind", "no-row"]] {
        assert_eq!(run(&[&["lint", object], arguments].concat()).status.code(), Some(2));
    }
    let nobody = run(&["lint", "--readers=nobody", object]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&nobody.stderr)
            .contains("=nobody: unknown name; the readers are: HP libunwind, ")
    );
}

/// A CIE of an unknown version says nothing about its functions.
#[test]
fn records_that_cannot_be_read_are_counted() {
    let file = scratch("records_unread").join("damaged.so");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    bytes[0x2d0 + 8] = 9;
    fs::write(&file, bytes).unwrap();
    let printed = printed(1, &["lint", "--readers", "--fail-undecided", file.to_str().unwrap()]);
    assert!(printed.contains(", 5 records that cannot be read\n"), "{printed}");
}
