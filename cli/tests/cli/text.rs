//! Tests help, reports and error lines as snapshots. A person reads them when they change.

use std::fs;
use std::path::Path;

use crate::program::{corpus, scratch, transcript, transcript_in};

/// Returns the output of several runs, one after the other.
fn transcripts(runs: &[&[&str]]) -> String {
    let runs: Vec<_> = runs.iter().map(|arguments| transcript(arguments)).collect();
    runs.join("\n")
}

#[test]
fn help() {
    let short = transcript(&["-h"]);
    let listed = short.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = listed.map_while(|line| line.split_whitespace().next()).filter(|verb| *verb != "help");
    let mut text = format!("{short}\n{}", transcript(&["--help"]));
    for verb in verbs {
        text += &format!("\n{}", transcript(&[verb, "--help"]));
    }
    insta::assert_snapshot!(text);
}

/// The page has the table of exit statuses that the help prints.
#[test]
fn the_page_has_the_exit_statuses() {
    let help = transcript(&["--help"]);
    let table: Vec<_> =
        help.lines().skip_while(|line| *line != "Exit status:").take_while(|line| !line.is_empty()).collect();
    assert!(table.len() > 10, "{help}");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tour.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&table.join("\n")), "{}", table.join("\n"));
}

#[test]
fn reports() {
    insta::assert_snapshot!(transcripts(&[
        &["linked.so", "--verify", "--min-coverage", "100"],
        &["linkable.o", "--layout", "gnu"],
        &["both_frames", "--verify", "--min-coverage", "100"],
        &["debug_frame.zlib.o", "--sframe-version", "2"],
        &["linked.so", "--no-flex", "--threads", "3"],
        &["lookup", "linked.so", "0x27d", "644", "0x1"],
        &["verify", "--profile", "kernel", "linked.so", "linkable.o"],
        &["verify", "members.a"],
        &["diff", "linked.so", "sectionless.so"],
        &["stats", "linked.so", "debug_frame.none.o"],
        &["explain", "linked.so"],
        &["explain", "linked.so", "0x270"],
        &["explain", "linkable.o", ".text+4"],
    ]));
}

/// Works in a copy of the corpus, so that a program that writes by mistake destroys nothing.
#[test]
fn errors_are_one_line_and_status_2() {
    let directory = scratch("errors").join("container");
    fs::create_dir(&directory).unwrap();
    for entry in fs::read_dir(corpus()).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
    }
    let runs: [&[&str]; 13] = [
        &["no-such-file"],
        &["container.s"],
        &["."],
        &["members.a", "--section", "x"],
        &["linked.so", "--section", "no-such-directory/x"],
        &["linked.so", "--section", "../container/linked.so"],
        &["linked.so", "--section", "-", "--json"],
        &["linkable.o", "--address", "16", "--section", "x"],
        &["dump", "debug_frame.none.o"],
        &["dump", "no-such-file", "container.s"],
        &["verify", "linkable.o", "--sframe", "linked.so"],
        &["explain", "linkable.o", "12"],
        &["explain", "linkable.o", ".nosuch+12"],
    ];
    let text = runs.map(|arguments| transcript_in(&directory, arguments)).join("\n");
    insta::assert_snapshot!(text);
    for run in text.split("$ ").skip(1) {
        assert!(run.contains("--- status 2\n") && run.contains("error: "), "{run}");
    }
}

#[test]
fn unsupported_options_are_errors() {
    insta::assert_snapshot!(transcripts(&[
        &[],
        &["linked.so", "--skip-done"],
        &["linked.so", "--layout", "lld"],
        &["linked.so", "--sframe-version", "1"],
        &["linked.so", "--min-coverage", "101"],
        &["linked.so", "--threads", "0"],
        &["linked.so", "--merge-functions", "x"],
        &["verify", "linked.so", "--padding", "1.5"],
        &["lookup", "linked.so", "0xfg"],
    ]));
}
