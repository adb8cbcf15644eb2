//! Tests reports as snapshots, on files of the corpus.

use std::fs;

use super::run_in;
use crate::program::{corpus, scratch, transcript_in};

#[test]
fn reports() {
    let directory = scratch("into_reports");
    for name in ["linkable.o", "members.a", "debug_frame.none.o"] {
        fs::copy(corpus().join(name), directory.join(name)).unwrap();
    }
    let runs: [&[&str]; 9] = [
        &["linkable.o", "-o", "linkable.new.o"],
        &["linkable.new.o", "-o", "linkable.json.o", "--json", "--sframe-version", "2"],
        &["--in-place", "--json", "linkable.o", "--no-verify"],
        &["--in-place", "--json", "linkable.o", "--skip-done"],
        &["--in-place", "members.a", "--min-coverage", "100"],
        &["--in-place", "members.a", "--no-flex", "--min-coverage", "100", "--layout", "gnu"],
        &["strip", "--json", "members.a"],
        &["strip", "linkable.o", "-v"],
        &["strip", "linkable.o"],
    ];
    let text: Vec<_> = runs.iter().map(|arguments| transcript_in(&directory, arguments)).collect();
    insta::assert_snapshot!(text.join("\n"));
}

/// Every byte that differs is in a range that the list of changes names.
#[test]
fn changes_are_all_listed() {
    let directory = super::built("into_changes");
    for name in ["program", "library.so", "object.o"] {
        let output = run_in(&directory, &[name, "-o", "new", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let (old, new) = (fs::read(directory.join(name)).unwrap(), fs::read(directory.join("new")).unwrap());
        assert_eq!(report["old_bytes"], old.len());
        assert_eq!(report["new_bytes"], new.len());
        let number = |text: &serde_json::Value| {
            usize::from_str_radix(text.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
        };
        let mut listed = vec![false; new.len()];
        for change in report["changes"].as_array().unwrap() {
            let (offset, size) = (number(&change["offset"]), change["size"].as_u64().unwrap() as usize);
            assert!(!change["what"].as_str().unwrap().is_empty());
            if change["from"].is_string() {
                let from = number(&change["from"]);
                assert_eq!(new[offset..offset + size], old[from..from + size], "{change}");
            }
            listed[offset..offset + size].fill(true);
        }
        for (offset, is_listed) in listed.iter().enumerate() {
            assert!(
                *is_listed || old.get(offset) == Some(&new[offset]),
                "{name}: byte {offset:#x} is not listed"
            );
        }
        assert!(listed.iter().any(|is_listed| !is_listed), "{name}");
    }
}
