//! Tests that options without effect are refused. If a table from another file is wrong, the message names that file.

use std::fs;
use std::path::Path;

use crate::compact::linked;
use crate::program::{command, run, scratch};

/// Runs the command in a directory. It must fail with one line, which is returned.
fn refused(directory: &Path, arguments: &[&str]) -> String {
    let output = command(arguments).current_dir(directory).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!((output.status.code(), stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    stderr.trim_start_matches("error: ").trim_end().to_string()
}

#[test]
fn options_without_effect_are_refused() {
    let directory = scratch("ignored");
    for name in ["linked.so", "linkable.o"] {
        fs::copy(crate::program::corpus().join(name), directory.join(name)).unwrap();
    }
    fs::write(directory.join("mach-o"), linked("l_6_pers_3.dylib")).unwrap();
    let table = directory.join("table");
    assert!(run(&["linked.so", "--section", table.to_str().unwrap()]).status.success());
    let cases: [(&[&str], &str); 21] = [
        (
            &["linked.so", "--layout", "gnu", "--merge-functions", "8"],
            "--merge-functions: layout gnu does not merge functions",
        ),
        (
            &["stats", "linkable.o", "--layout", "gnu", "--no-sharing"],
            "--no-sharing: layout gnu does not share rows",
        ),
        (&["linked.so", "--address", "16"], "--address: needs --section, without which no bytes are written"),
        (
            &["linked.so", "--json", "--section", "/dev/stdout"],
            "--section and --json both write to standard output",
        ),
        (
            &["dump", "linked.so", "--address", "16"],
            "linked.so: --address: the input is not a bare .sframe section",
        ),
        (
            &["lookup", "mach-o", "1", "--address", "16"],
            "mach-o: --address: the input is not a bare .sframe section",
        ),
        (
            &["verify", "linked.so", "--address", "16"],
            "linked.so: --address: the input is not a bare .sframe section",
        ),
        (
            &["verify", "linked.so", "--sframe", "linked.so", "--address", "16"],
            "linked.so: --address: the input is not a bare .sframe section",
        ),
        (
            &["diff", "linked.so", "linked.so", "--address", "16"],
            "linked.so: --address: the input is not a bare .sframe section",
        ),
        (
            &["diff", "linked.so", "table", "--address", "16", "--address-b", "32"],
            "linked.so: --address: the input is not a bare .sframe section",
        ),
        (
            &["diff", "table", "linked.so", "--address-b", "16"],
            "linked.so: --address-b: B is not a bare .sframe section",
        ),
        (&["linked.so", "--arch", "aarch64"], "linked.so: the file has no aarch64, but x86_64"),
        (&["dump", "linked.so", "--arch", "arm64"], "linked.so: the file has no arm64, but x86_64"),
        (
            &["stats", "mach-o", "--no-flex"],
            "mach-o: options of the table: no .sframe table is built for this input",
        ),
        (
            &["stats", "linked.so", "--no-flex"],
            "linked.so: options of the table: no .sframe table is built for this input",
        ),
        (
            &["stats", "table", "--layout", "gnu"],
            "table: options of the table: no .sframe table is built for this input",
        ),
        (
            &["explain", "mach-o", "--sframe-version", "2"],
            "mach-o: options of the table: no .sframe table is built for this input",
        ),
        (&["verify", "linked.so", "linked.so", "--sframe", "table"], "table: one table, but 2 files"),
        (
            &["verify", "linked.so", "--unwind-info", "mach-o"],
            "linked.so: --unwind-info: an ELF file has no __unwind_info; use --sframe for its table",
        ),
        (
            &["verify", "mach-o", "--sframe", "mach-o"],
            "mach-o: --sframe: a Mach-O file has no .sframe; use --unwind-info for its table",
        ),
        (
            &["unwind-info", "mach-o", "--json", "--section", "-"],
            "--section and --json both write to standard output",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(refused(&directory, arguments), expected, "{arguments:?}");
    }
}

#[test]
fn errors_of_a_given_table_name_its_file() {
    let directory = scratch("blamed");
    fs::copy(crate::program::corpus().join("linked.so"), directory.join("linked.so")).unwrap();
    fs::copy(crate::program::corpus().join("debug_frame.none.o"), directory.join("none.o")).unwrap();
    fs::write(directory.join("mach-o"), linked("l_6_pers_3.dylib")).unwrap();
    fs::write(directory.join("sframe"), [0xe2, 0xde, 3]).unwrap();
    fs::write(directory.join("unwind_info"), [1, 0, 0, 0, 5]).unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["verify", "linked.so", "--sframe", "sframe"], "sframe: section .sframe: "),
        (&["verify", "linked.so", "--sframe", "none.o"], "none.o: the file has no .sframe table"),
        (&["verify", "mach-o", "--unwind-info", "unwind_info"], "unwind_info: section __unwind_info: "),
    ];
    for (arguments, expected) in cases {
        let printed = refused(&directory, arguments);
        assert!(printed.starts_with(expected), "{printed}");
    }
}
