//! Runs the program `relink` on the files of a small link.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_relink");
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/linker/relink");

/// Runs `relink` on an output and its map, with the two objects in `relink/`. The objects share a group.
fn relink(linked: &str, map: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["--linked", linked, "--map", map, "main.o", "helper.o"]);
    command.current_dir(FILES).output().unwrap()
}

/// Writes a file of the tests' directory, and returns its path.
fn written(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    path.into_os_string().into_string().unwrap()
}

#[test]
fn relink_finds_what_ld_wrote() {
    let output = relink("linked", "linked.map");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "identical: 3 functions, 114 bytes\n");
}

#[test]
fn relink_finds_a_row_that_differs() {
    let mut bytes = fs::read(Path::new(FILES).join("linked")).unwrap();
    // We look for the table's magic number. Its last byte is an offset in the rows of `_start` or `shared`.
    let at = bytes.windows(3).position(|bytes| bytes == [0xe2, 0xde, 3]).unwrap();
    bytes[at + 113] += 8;
    let output = relink(&written("relinked", bytes), "linked.map");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("different: byte 0x71: ld has 0x10, expected 0x08"), "{printed}");
}

/// `ld --gc-sections --discard-sframe` writes neither the section nor a line about a table in the map.
#[test]
fn relink_expects_no_table_if_the_link_has_discarded_all() {
    let mut bytes = fs::read(Path::new(FILES).join("linked")).unwrap();
    let name = bytes.windows(8).position(|bytes| bytes == b".sframe\0").unwrap();
    bytes[name + 1] = b'x';
    let map = fs::read_to_string(Path::new(FILES).join("linked.map")).unwrap();
    let map: String = map.split_inclusive('\n').filter(|line| !line.contains(".sframe")).collect();
    let output = relink(&written("discarded", bytes), &written("discarded.map", map));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "note: ld has discarded the tables of all objects (--discard-sframe)\nidentical: 0 functions, 0 bytes\n"
    );
}

#[test]
fn relink_fails_without_files() {
    assert_eq!(relink("missing", "linked.map").status.code(), Some(2));
    assert_eq!(Command::new(PROGRAM).output().unwrap().status.code(), Some(2));
}
