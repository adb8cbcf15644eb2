//! Tests damaged inputs and things that are not files: each is named in a message, and stays as it is.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use cfipack_container::members;

use super::{built, messages, names, run_in};
use crate::program::corpus;

/// Number of the user and of the group `nobody`.
const NOBODY: u32 = 65534;

#[test]
fn truncated_files_stay_as_they_are() {
    let directory = built("into_truncated");
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
    let directory = built("into_no_file");
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

/// The conversion and the judge must agree that the FDE is unreadable. Both name it, and no other function is hidden.
#[test]
fn a_function_beyond_the_last_address() {
    let directory = built("into_beyond");
    let path = directory.join("library.so");
    let mut bytes = fs::read(&path).unwrap();
    let functions = messages_of(&directory, &["--in-place", "library.so"], 0);
    messages(&directory, &["strip", "library.so"], 0);
    let (at, len) = {
        use object::{Object as _, ObjectSection as _};
        let file = object::File::parse(&*bytes).unwrap();
        file.section_by_name(".eh_frame").unwrap().file_range().unwrap()
    };
    // We look for the last record before the terminator. An FDE's size is a signed number of 4 bytes at offset 12.
    let (mut record, mut last) = (at as usize, 0);
    while record < (at + len) as usize {
        let length = u32::from_ne_bytes(bytes[record..record + 4].try_into().unwrap());
        if length == 0 {
            break;
        }
        last = record;
        record += 4 + length as usize;
    }
    bytes[last + 12..last + 16].copy_from_slice(&(-2_i32).to_ne_bytes());
    fs::write(&path, &bytes).unwrap();
    let damaged = messages_of(&directory, &["--in-place", "library.so"], 1);
    assert_eq!((damaged.0, damaged.1 + 1), functions);
    let text = messages(&directory, &["--in-place", "library.so"], 1);
    assert!(text.contains("warning: library.so: 1 FDE cannot be read: omitted"), "{text}");
    let verify = run_in(&directory, &["verify", "--json", "library.so"]);
    assert_eq!(verify.status.code(), Some(1));
    let verdict: serde_json::Value = serde_json::from_slice(&verify.stdout).unwrap();
    let counts = ["functions", "equal", "unreadable", "pcs_hidden"]
        .map(|name: &str| verdict[name].as_u64().unwrap_or_else(|| panic!("{name}: {verdict}")));
    assert_eq!(counts, [damaged.0, damaged.1, 1, 0]);
}

/// Returns how many functions the summary mentions, and how many of them are converted.
fn messages_of(directory: &Path, arguments: &[&str], status: i32) -> (u64, u64) {
    let text = messages(directory, arguments, status);
    let line = text.lines().find(|line| line.contains(" converted (")).unwrap_or_else(|| panic!("{text}"));
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Makes an archive of members with short names, without a symbol index.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, member) in members {
        let header =
            format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", format!("{name}/"), 0, 0, 0, 644, member.len());
        bytes.extend([header.as_bytes(), member].concat());
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

/// One member is for a machine without `.sframe`. Both verbs name this member and work on the others.
#[test]
fn a_member_for_another_machine() {
    let directory = built("into_machines");
    let mut other = fs::read(directory.join("object.o")).unwrap();
    // e_machine: EM_SPU_2, in either byte order.
    other[18..20].copy_from_slice(&[13, 13]);
    fs::write(directory.join("other.o"), &other).unwrap();
    let object = fs::read(directory.join("object.o")).unwrap();
    fs::write(directory.join("mixed.a"), archive(&[("object.o", &object), ("other.o", &other)])).unwrap();
    let text = messages(&directory, &["--in-place", "mixed.a"], 0);
    let stays =
        "warning: mixed.a: member other.o stays as it is: a Mach-O file, or ELF of a machine or kind without";
    assert!(text.contains(stays) && text.contains(" in 1 member,"), "{text}");
    let changed = fs::read(directory.join("mixed.a")).unwrap();
    let last = members(&changed).unwrap().last().unwrap().unwrap();
    assert!(last.name.as_deref() == Some("other.o") && last.bytes == other);
    let text = messages(&directory, &["verify", "mixed.a"], 0);
    assert!(text.contains("warning: mixed.a(other.o): offset 0x12: "), "{text}");
    let text = messages(&directory, &["--in-place", "--strict", "mixed.a"], 1);
    assert!(text.contains(stays), "{text}");
    fs::write(directory.join("text.a"), archive(&[("text", b"no object")])).unwrap();
    let text = messages(&directory, &["--in-place", "text.a"], 2);
    assert_eq!(text, "error: text.a: an archive without ELF files\n");
    // If the file is the only input, it is an error for both verbs.
    messages(&directory, &["--in-place", "other.o"], 2);
    messages(&directory, &["verify", "other.o"], 2);
}

/// If the file or its directory cannot be written, nothing changes.
#[test]
fn without_permission() {
    let built = built("into_forbidden");
    let directory = std::env::temp_dir().join(format!("cfi2sframe-forbidden-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    // Another process copies the programs. While this process has a program open for writing, nobody can run it.
    for (from, to) in
        [(env!("CARGO_BIN_EXE_cfi2sframe").into(), "cfi2sframe"), (built.join("program"), "program")]
    {
        assert!(Command::new("cp").arg(from).arg(directory.join(to)).status().unwrap().success());
    }
    let is_root = fs::metadata(&directory).unwrap().uid() == 0;
    let old = fs::read(directory.join("program")).unwrap();
    // A read-only file in a writable directory, a writable file in a read-only directory, and an unreadable file.
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
