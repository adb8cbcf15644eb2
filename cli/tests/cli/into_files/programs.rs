//! Tests that programs run as before with a table, and after its removal. Program headers lead to the tables.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use cfipack_testkit::{needs, rustc};

use super::{built, has_table, messages, names, run_in, state};
use crate::program::waiting;

/// Runs a program. Returns its standard output and status.
fn ran(directory: &Path, program: &str) -> (Vec<u8>, Option<i32>) {
    let output = Command::new(directory.join(program)).arg("word").output().unwrap();
    (output.stdout, output.status.code())
}

#[test]
fn a_program_runs_with_its_table_and_without_it() {
    let directory = built("into_program");
    let expected = (b"word 2\n".to_vec(), Some(2));
    assert_eq!(ran(&directory, "program"), expected);
    messages(&directory, &["program", "-o", "new"], 0);
    assert_eq!(ran(&directory, "new"), expected);
    assert_eq!(has_table(&directory, "new"), [true; 2]);
    assert_eq!(has_table(&directory, "program"), [false; 2]);
    messages(&directory, &["verify", "new"], 0);
    messages(&directory, &["strip", "new", "-o", "old"], 0);
    assert_eq!(ran(&directory, "old"), expected);
    assert_eq!(has_table(&directory, "old"), [false; 2]);
    assert_eq!(messages(&directory, &["strip", "old"], 0), "old: skipped: no table\n");
    assert_eq!(names(&directory), ["library.so", "new", "object.o", "old", "program"]);
}

#[test]
fn a_second_run_does_not_touch_the_file() {
    let directory = built("into_twice");
    let files = ["program", "library.so", "object.o"];
    for file in files {
        messages(&directory, &["--in-place", file], 0);
        let before = state(&directory.join(file));
        let text = messages(&directory, &["--in-place", file], 0);
        assert!(text.starts_with(&format!("{file}: unchanged, ")), "{text}");
        let text = messages(&directory, &["--in-place", "--skip-done", file], 0);
        assert_eq!(text, format!("{file}: skipped: has a table already\n"));
        assert_eq!(state(&directory.join(file)), before, "{file}");
    }
    // A table of another version than the one asked for is not "done": the file gets a new table.
    for file in files {
        let text = messages(&directory, &["--in-place", "--skip-done", "--for", "glibc-2.43", file], 0);
        assert!(text.contains("version 2, read by glibc 2.43"), "{text}");
        let header = String::from_utf8(run_in(&directory, &["dump", file]).stdout).unwrap();
        assert!(header.contains("SFRAME_VERSION_2"), "{file}: {header}");
    }
}

#[test]
fn an_object_gets_its_old_bytes_back() {
    let directory = built("into_object");
    let old = fs::read(directory.join("object.o")).unwrap();
    messages(&directory, &["--in-place", "object.o"], 0);
    assert_eq!(has_table(&directory, "object.o"), [true, false]);
    messages(&directory, &["strip", "object.o"], 0);
    assert_eq!(fs::read(directory.join("object.o")).unwrap(), old);
}

/// Its CFA is a constant, so no table can represent the function.
#[test]
fn a_table_without_functions_is_not_written() {
    let directory = built("into_empty");
    let source = ".globl f\nf: .cfi_startproc\n.cfi_escape 0x0f, 1, 0x30\n nop\n.cfi_endproc\n";
    rustc::assemble(&directory, source, "f.o");
    let before = state(&directory.join("f.o"));
    let text = messages(&directory, &["--in-place", "f.o"], 0);
    assert!(text.starts_with("f.o: unchanged, no table, 0 of 1 function\n"), "{text}");
    assert!(text.contains("  omitted: 1 cfa-expression\n"), "{text}");
    assert_eq!(state(&directory.join("f.o")), before);
    messages(&directory, &["--in-place", "--min-coverage", "50", "f.o"], 1);
}

/// A running program cannot be written to, but its file can be replaced.
#[test]
fn a_program_that_runs_is_replaced() {
    let directory = built("into_running");
    let mut running = waiting(&directory, "waits");
    messages(&directory, &["--in-place", "waits"], 0);
    assert!(running.try_wait().unwrap().is_none());
    running.kill().unwrap();
    running.wait().unwrap();
    let again = Command::new(directory.join("waits")).stdin(Stdio::null()).status();
    assert!(again.unwrap().success());
}

#[test]
#[ignore = "needs ar and readelf"]
fn members_of_archives_and_thin_archives() {
    ["ar", "readelf"].iter().for_each(|tool| needs::program(tool, "binutils"));
    let directory = built("into_archives");
    let readelf = |arguments: &[&str]| {
        let output = Command::new("readelf").args(arguments).current_dir(&directory).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ar = |arguments: &[&str]| {
        let output = Command::new("ar").args(arguments).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "ar {arguments:?}");
        output.stdout
    };
    fs::create_dir(directory.join("other")).unwrap();
    fs::copy(directory.join("object.o"), directory.join("other/object.o")).unwrap();
    fs::write(directory.join("text"), "not an object").unwrap();
    // The archive has two members of the same name, with a text between them.
    ar(&["qcs", "whole.a", "object.o", "text", "other/object.o"]);
    ar(&["qcsT", "thin.a", "object.o", "other/object.o"]);
    let (listed, symbols) = (ar(&["tv", "whole.a"]), readelf(&["-c", "thin.a"]));
    let old = fs::read(directory.join("whole.a")).unwrap();
    let text = messages(&directory, &["--in-place", "whole.a"], 0);
    assert!(text.contains("in 2 members"), "{text}");
    let sizes = |text: &[u8]| {
        let lines = String::from_utf8_lossy(text).into_owned();
        let size = |line: &str| line.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap();
        lines.lines().map(size).collect::<Vec<_>>()
    };
    let (before, after) = (sizes(&listed), sizes(&ar(&["tv", "whole.a"])));
    assert!(after[0] > before[0] && after[1] == before[1] && after[2] == after[0], "{before:?} {after:?}");
    messages(&directory, &["strip", "whole.a"], 0);
    assert_eq!(fs::read(directory.join("whole.a")).unwrap(), old);
    // The members of a thin archive are separate files. They change, and the archive states their new sizes.
    messages(&directory, &["--in-place", "thin.a"], 0);
    let new = fs::metadata(directory.join("object.o")).unwrap().len();
    assert_eq!(sizes(&ar(&["tv", "thin.a"])), [new, new]);
    assert_eq!(new, after[0]);
    assert_eq!(readelf(&["-c", "thin.a"]), symbols);
    let before = state(&directory.join("thin.a"));
    messages(&directory, &["--in-place", "thin.a"], 0);
    assert_eq!(state(&directory.join("thin.a")), before);
    let text = messages(&directory, &["thin.a", "-o", "x"], 2);
    assert!(text.contains("members are files of their own: use --in-place"), "{text}");
    messages(&directory, &["strip", "thin.a"], 0);
    assert_eq!(sizes(&ar(&["tv", "thin.a"])), [before_size(&old), before_size(&old)]);
}

/// Returns the size of an archive's first member after the symbol index. Headers state sizes in decimal.
fn before_size(archive: &[u8]) -> u64 {
    let size = |header: usize| {
        let text = std::str::from_utf8(&archive[header + 48..header + 58]).unwrap();
        text.trim_end().parse::<u64>().unwrap()
    };
    let index = size(8);
    size((8 + 60 + index as usize).next_multiple_of(2))
}
