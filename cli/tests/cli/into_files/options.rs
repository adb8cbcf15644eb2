//! Options that do not go together are refused.

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
        (&["linkable.o", "members.a"], "several inputs: need --in-place"),
        (&["linkable.o", "members.a", "-o", "x"], "-o: 2 inputs, but one output"),
        (
            &["linkable.o", "-o", "linkable.o"],
            "linkable.o: -o would overwrite the input: replace it in place",
        ),
        (
            &["strip", "linkable.o", "-o", "./linkable.o"],
            "linkable.o: -o would overwrite the input: replace it in place",
        ),
        (&["linkable.o", "-o", "-", "--json"], "-o and --json both write to standard output"),
        (
            &["linkable.o", "-o", "x", "--jobs", "2"],
            "--recursive, --jobs and --break-links: are for files that are changed in place",
        ),
        (
            &["linkable.o", "-r"],
            "--recursive, --jobs and --break-links: are for files that are changed in place",
        ),
        (
            &["linkable.o", "--preserve-dates"],
            "--preserve-dates, --no-sync, --verbose and --quiet: need -o or --in-place",
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
        (&["linkable.o", "-o", "no-such-directory/x"], "linkable.o: No such file or directory (os error 2)"),
        (&["linkable.o", "-o", "."], "linkable.o: .: Is a directory (os error 21)"),
    ];
    for (arguments, expected) in cases {
        let text = messages(&directory, arguments, 2);
        assert_eq!(text, format!("error: {expected}\n"), "{arguments:?}");
    }
    // What clap refuses.
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
