//! Tests that options which exclude each other are refused.

use std::fs;

use super::{messages, names};
use crate::program::{corpus, scratch};

#[test]
fn options_that_do_not_go_together() {
    let directory = scratch("into_options");
    for name in ["linkable.o", "members.a"] {
        fs::copy(corpus().join(name), directory.join(name)).unwrap();
    }
    let cases: [(&[&str], &str); 13] = [
        (
            &["linkable.o", "members.a", "--section", "x"],
            "--section: 2 inputs, but one section: convert each by itself",
        ),
        (&["linkable.o", "members.a", "-o", "x"], "-o: 2 inputs, but one output: --in-place changes each"),
        (
            &["linkable.o", "-o", "linkable.o"],
            "linkable.o: -o would overwrite the input: replace it in place (--in-place)",
        ),
        (
            &["strip", "linkable.o", "-o", "./linkable.o"],
            "linkable.o: -o would overwrite the input: replace it in place (no -o)",
        ),
        (&["linkable.o", "-o", "-", "--json"], "-o and --json both write to standard output"),
        (
            &["linkable.o", "-o", "x", "--jobs", "2"],
            "--jobs: needs --in-place: it is for files that are changed in place",
        ),
        (&["linkable.o", "-r"], "--recursive: needs --in-place: it is for files that are changed in place"),
        (
            &["linkable.o", "--preserve-dates"],
            "--preserve-dates: needs -o or --in-place, without which no file is written",
        ),
        (
            &["linkable.o", "--no-verify"],
            "--no-verify: without -o or --in-place, verification needs --verify",
        ),
        (
            &["linkable.o", "-o", "x", "--arch", "x86_64"],
            "--arch: files are written with all their architectures",
        ),
        (
            &["linkable.o", "--in-place", "--layout", "gnu", "--merge-functions", "2"],
            "--merge-functions: layout gnu does not merge functions",
        ),
        (
            &["linkable.o", "-o", "no-such-directory/x"],
            "no-such-directory/x: there is no directory no-such-directory",
        ),
        (&["linkable.o", "-o", "."], ".: a directory; the output is a file"),
    ];
    for (arguments, expected) in cases {
        let text = messages(&directory, arguments, 2);
        assert_eq!(text, format!("error: {expected}\n"), "{arguments:?}");
    }
    // Combinations that clap refuses.
    for arguments in [
        &["linkable.o", "-o", "x", "--section", "y"][..],
        &["linkable.o", "-o", "x", "--in-place"],
        &["linkable.o", "--in-place", "--address", "1"],
        &["linkable.o", "--skip-done"],
        &["linkable.o", "--in-place", "--verify", "--no-verify"],
        &["linkable.o", "--in-place", "--for", "kernel", "--sframe-version", "2"],
    ] {
        let text = messages(&directory, arguments, 2);
        assert!(text.starts_with("error: "), "{arguments:?}: {text}");
    }
    assert_eq!(names(&directory), ["linkable.o", "members.a"]);
    assert_eq!(
        fs::read(directory.join("linkable.o")).unwrap(),
        fs::read(corpus().join("linkable.o")).unwrap()
    );
}
