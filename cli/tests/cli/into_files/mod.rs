//! `-o`, `--in-place` and `strip`: finished files with tables in them, in the place of the old ones.

mod attributes;
mod hostile;
mod interrupted;
mod links;
mod many;
mod options;
mod overlay;
mod programs;
mod reports;
mod swapped;
mod thin_archives;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cfipack_tests::not_tested::skipped;

use crate::program::{command, scratch};

/// A program that prints a line, in C.
const PROGRAM: &str = r#"
#include <stdio.h>
int depth(int n) { return n ? 1 + depth(n - 1) : 0; }
int main(int argc, char **argv) { printf("%s %d\n", argc > 1 ? argv[1] : "none", depth(argc)); return argc; }
"#;

/// A directory with `program`, `library.so` and `object.o` of the machine's C compiler; none without one.
fn built(name: &str) -> Option<PathBuf> {
    let directory = scratch(name);
    fs::write(directory.join("source.c"), PROGRAM).unwrap();
    let builds: [&[&str]; 3] = [
        &["-pie", "-fPIE", "source.c", "-o", "program"],
        &["-shared", "-fPIC", "source.c", "-o", "library.so"],
        &["-c", "source.c", "-o", "object.o"],
    ];
    for arguments in builds {
        let built = Command::new("cc").args(["-O1"]).args(arguments).current_dir(&directory).status();
        if !built.is_ok_and(|status| status.success()) {
            skipped(name, "there is no C compiler `cc` that makes programs and libraries");
            return None;
        }
    }
    fs::remove_file(directory.join("source.c")).unwrap();
    Some(directory)
}

/// Runs the program there.
fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    command(arguments).current_dir(directory).output().unwrap()
}

/// Its messages, if the exit status is the expected one.
fn messages(directory: &Path, arguments: &[&str], status: i32) -> String {
    let output = run_in(directory, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    text
}

/// Inode, times and contents of a file.
fn state(path: &Path) -> (u64, i64, i64, i64, Vec<u8>) {
    let it = fs::metadata(path).unwrap();
    (it.ino(), it.mtime(), it.mtime_nsec(), it.ctime_nsec(), fs::read(path).unwrap())
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What `readelf` prints about a file, to compare with names of its own.
fn readelf(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("readelf").args(arguments).current_dir(directory).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
