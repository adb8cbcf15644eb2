//! Damaged inputs, and what is not a file: named and left as it is.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::{built, messages, names, run_in};
use crate::program::corpus;

/// Number of the user and of the group `nobody`.
const NOBODY: u32 = 65534;

#[test]
fn truncated_files_stay_as_they_are() {
    let Some(directory) = built("into_truncated") else { return };
    for name in ["program", "library.so", "object.o"] {
        let whole = fs::read(directory.join(name)).unwrap();
        let path = directory.join("cut");
        for eighth in 0..24 {
            let cut = &whole[..whole.len() * eighth / 24];
            fs::write(&path, cut).unwrap();
            for verb in [&["--in-place"][..], &["strip"]] {
                let output = run_in(&directory, &[verb, &["cut"]].concat());
                let text = String::from_utf8(output.stderr).unwrap();
                let status = output.status.code();
                assert!(matches!(status, Some(0..=2)), "{name} {eighth}: {status:?} {text}");
                assert!(status == Some(0) || text.contains("cut: "), "{name} {eighth}: {text}");
                assert_eq!(fs::read(&path).unwrap(), cut, "{name} {eighth}: {text}");
            }
        }
        fs::remove_file(path).unwrap();
    }
    assert_eq!(names(&directory), ["library.so", "object.o", "program"]);
}

#[test]
fn what_is_no_file_is_named() {
    let Some(directory) = built("into_no_file") else { return };
    fs::write(directory.join("empty"), "").unwrap();
    fs::write(directory.join("text"), "text").unwrap();
    fs::create_dir(directory.join("directory")).unwrap();
    assert!(Command::new("mkfifo").arg(directory.join("fifo")).status().unwrap().success());
    let text = "offset 0x0: neither an ELF file, a Mach-O file nor an archive: starts with 74 65 78 74";
    for (name, reason) in [
        ("empty", "offset 0x0: neither an ELF file, a Mach-O file nor an archive: it is empty"),
        ("text", &format!("{text}, as text: a source, or a linker script that names the library")),
        ("directory", "a directory: use --recursive"),
        ("fifo", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("/dev/stdin", "not a regular file"),
        ("missing", "No such file or directory (os error 2)"),
    ] {
        let expected = format!("error: {name}: {reason}\n");
        assert_eq!(messages(&directory, &["--in-place", name], 2), expected);
        assert_eq!(messages(&directory, &["strip", name], 2), expected);
    }
    let mach_o = corpus().join("../compact-unwind");
    if let Some(entry) = fs::read_dir(mach_o)
        .into_iter()
        .flatten()
        .flatten()
        .find(|entry| entry.path().extension().is_some_and(|extension| extension == "dylib"))
    {
        let path = entry.path();
        let text = messages(&directory, &["--in-place", path.to_str().unwrap()], 2);
        assert!(text.contains("without .sframe"), "{text}");
    }
}

/// Without permission for the file or its directory, nothing changes.
#[test]
fn without_permission() {
    let Some(built) = built("into_forbidden") else { return };
    let directory = std::env::temp_dir().join(format!("cfi2sframe-forbidden-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    // By other processes: while this one has a program open for writing, no other can run it.
    for (from, to) in
        [(env!("CARGO_BIN_EXE_cfi2sframe").into(), "cfi2sframe"), (built.join("program"), "program")]
    {
        assert!(Command::new("cp").arg(from).arg(directory.join(to)).status().unwrap().success());
    }
    let is_root = fs::metadata(&directory).unwrap().uid() == 0;
    let old = fs::read(directory.join("program")).unwrap();
    // Not writable file in a writable directory, writable file in one that is not, and a file that is not readable.
    for (directory_mode, file_mode, message) in [
        (0o777, 0o555, "Permission denied"),
        (0o555, 0o777, "Permission denied"),
        (0o777, 0o300, "Permission denied"),
    ] {
        fs::set_permissions(directory.join("program"), Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(directory_mode)).unwrap();
        let mut command = Command::new(directory.join("cfi2sframe"));
        command.args(["--in-place", "program"]).current_dir(&directory);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.starts_with("error: program: ") && text.contains(message), "{text}");
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(directory.join("program"), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fs::read(directory.join("program")).unwrap(), old);
        assert_eq!(names(&directory), ["cfi2sframe", "program"]);
    }
    fs::remove_dir_all(directory).unwrap();
}
