//! Tests `-o`, `--in-place` and `strip`, which replace finished files by files with or without a table.

mod attributes;
mod hostile;
mod interrupted;
mod leftovers;
mod links;
mod many;
mod options;
mod overlay;
mod programs;
mod reports;
mod swapped;
mod thin_archives;
mod unjudged;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use cfipack_testkit::{needs, rustc};
use object::read::elf::ElfFile64;
use object::{Object as _, elf};

use crate::program::{names, run_in, scratch};

/// Makes a directory with `program`, `library.so` and `object.o`.
fn built(name: &str) -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let directory = scratch("into_built");
        rustc::program_library_object(&directory);
        directory
    });
    let directory = scratch(name);
    // Another process copies the files. While this process has a program open for writing, a child that another test
    // starts inherits the descriptor, and the program cannot be run.
    let files = ["program", "library.so", "object.o"].map(|file| BUILT.join(file));
    let copied = Command::new("cp").args(files).arg(&directory).status();
    assert!(copied.unwrap().success());
    directory
}

/// Runs a script in which `$0` is the command, with mounts of its own. A status of 99 or 1 means that it cannot mount.
fn mounting(directory: &Path, script: &str) -> Output {
    needs::program("unshare", "util-linux");
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_cfi2sframe")]);
    let output = unshare.current_dir(directory).output().unwrap();
    let is_refused = matches!(output.status.code(), Some(99 | 1));
    assert!(!is_refused, "this test needs root, which mounts a file system: {output:?}");
    output
}

/// Returns standard error. The exit status must be `status`.
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

/// Returns whether a file has a section `.sframe`, and whether it has a program header for the table.
fn has_table(directory: &Path, name: &str) -> [bool; 2] {
    let bytes = fs::read(directory.join(name)).unwrap();
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let headers = file.elf_program_headers().iter();
    let is_loaded =
        headers.map(|header| header.p_type.get(file.endian())).any(|kind| kind == elf::PT_GNU_SFRAME);
    [file.section_by_name(".sframe").is_some(), is_loaded]
}
