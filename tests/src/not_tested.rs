//! The list of tests that a run leaves out, with the reasons: each test that cannot run here calls [`skipped`], and the
//! last test program of a run prints the list.
//!
//! The lines are kept in a file of the run beside the test programs. Programs of one `cargo test` have one parent, whose
//! number the file's name has. The file depends on std alone: packages whose tests cannot depend on this one include it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

/// Records that `what` is not tested, and prints it past the test harness's capture. `why` names what is missing, with the
/// way to get it.
pub fn skipped(what: &str, why: &str) {
    let line = |text: &str| text.replace(['\t', '\n'], " ").trim().to_string();
    let (what, why) = (line(what), line(why));
    let _ = writeln!(io::stderr(), "SKIPPED: {what}: not tested: {why}");
    // One write for a line: programs and threads append to the same file.
    let opened = OpenOptions::new().create(true).append(true).open(list());
    let _ = opened.and_then(|mut file| file.write_all(format!("{why}\t{what}\n").as_bytes()));
}

/// The list of the run that this program belongs to: a line for each test, its reason before it.
pub fn list() -> PathBuf {
    #[cfg(unix)]
    let run = std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    let run = 0;
    let program = std::env::current_exe().unwrap_or_default();
    program.with_file_name(format!("not-tested-{run}.txt"))
}
