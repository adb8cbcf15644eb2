//! Runs the program as a user would, in the directory of the small files that the tests read.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use cfipack_testkit::rustc::rustc;

/// The directory of `linked.so`, `linkable.o` and other inputs.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container")
}

/// Returns a command with these arguments, not yet started.
pub fn command(arguments: &[&str]) -> Command {
    command_in(&corpus(), arguments)
}

fn command_in(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cfi2sframe"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command
}

/// Runs the program and returns its output.
pub fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs the program in another directory and returns its output.
pub fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    command(arguments).current_dir(directory).output().unwrap()
}

/// Returns arguments, status and both streams, for a snapshot.
pub fn transcript(arguments: &[&str]) -> String {
    transcript_in(&corpus(), arguments)
}

/// The same as [`transcript`], in another directory.
pub fn transcript_in(directory: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command_in(directory, arguments).output().unwrap();
    let mut text = format!("$ cfi2sframe {}\n", arguments.join(" "));
    for (name, stream) in [("stdout", stdout), ("stderr", stderr)] {
        if !stream.is_empty() {
            text += &format!("--- {name}\n{}", String::from_utf8(stream).unwrap());
        }
    }
    text + &format!("--- status {}\n", status.code().unwrap())
}

/// Makes an empty directory for a test. Another run of the same test may be active.
pub fn scratch(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Returns the names in a directory, in order.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Starts a new program that ends when its input ends.
pub fn waiting(directory: &Path, name: &str) -> Child {
    std::fs::write(
        directory.join("waits.rs"),
        "fn main() { std::io::stdin().read_line(&mut String::new()).unwrap(); }",
    )
    .unwrap();
    rustc(directory, &["waits.rs", "-o", name]);
    std::fs::remove_file(directory.join("waits.rs")).unwrap();
    Command::new(directory.join(name)).stdin(Stdio::piped()).spawn().unwrap()
}
