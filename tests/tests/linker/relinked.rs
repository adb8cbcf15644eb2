//! Runs the program `relink` on the files of a small link.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_relink");
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/linker/relink");

/// Runs `relink` on an output, with the map and the two objects in `relink/`. The objects share a group.
fn relink(linked: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("--linked").arg(linked).arg("--map").args(["linked.map", "main.o", "helper.o"]);
    command.current_dir(FILES).output().unwrap()
}

#[test]
fn relink_finds_what_ld_wrote() {
    let output = relink("linked");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "identical: 3 functions, 114 bytes\n");
}

#[test]
fn relink_finds_a_row_that_differs() {
    let mut bytes = fs::read(Path::new(FILES).join("linked")).unwrap();
    // We look for the table's magic number. Its last byte is an offset in the rows of `_start` or `shared`.
    let at = bytes.windows(3).position(|bytes| bytes == [0xe2, 0xde, 3]).unwrap();
    bytes[at + 113] += 8;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("relinked");
    fs::write(&path, bytes).unwrap();
    let output = relink(path.to_str().unwrap());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("different: byte 0x71: ld has 0x10, expected 0x08"), "{printed}");
}

#[test]
fn relink_fails_without_files() {
    assert_eq!(relink("missing").status.code(), Some(2));
    assert_eq!(Command::new(PROGRAM).output().unwrap().status.code(), Some(2));
}
