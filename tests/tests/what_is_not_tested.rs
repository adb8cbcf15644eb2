//! Prints what this run did not test and how to get it. Cargo runs the test programs of a workspace in the order of their
//! packages' names and their own; this one is the last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cfipack_tests::not_tested;

fn main() {
    // `cargo test --test NAME FILTER` and nextest's lists ask for the tests in here.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let lines = fs::read_to_string(not_tested::list()).unwrap_or_default();
    let _ = fs::remove_file(not_tested::list());
    let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (why, what) in lines.lines().filter_map(|line| line.split_once('\t')) {
        reasons.entry(why).or_default().insert(what);
    }
    let mut text = String::new();
    for (why, tests) in reasons {
        text += &format!("    NOT TESTED: {}: {why}\n", Vec::from_iter(tests).join("; "));
    }
    match text.as_str() {
        "" => println!("\nNothing that the tests of this run need was missing.\n"),
        list => println!("\nThis run did not test what needs more than this machine has:\n{list}"),
    }
    // For scripts.
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("not-tested.txt");
    fs::write(&list, text).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}
