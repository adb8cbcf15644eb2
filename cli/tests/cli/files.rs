//! Tests output files: each is complete or absent, with the right bytes and the right exit status.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use crate::program::{command, corpus, run, scratch};
use cfipack_container::File;

#[test]
fn section_of_an_object_is_what_gas_wrote() {
    let object = fs::read(corpus().join("linkable.o")).unwrap();
    let file = File::parse(&object).unwrap();
    let expected = &file.sframe_sections().unwrap()[0];
    let output = run(&["linkable.o", "--layout", "gnu", "--section", "-"]);
    assert!(output.status.success());
    // gas leaves start fields zero and adds relocations, which `File::parse` has applied.
    let mut expected = expected.bytes.to_vec();
    for index in 0..4 {
        expected[28 + 16 * index..][..8].fill(0);
    }
    assert_eq!(output.stdout, expected);
}

#[test]
fn written_sections_are_read_back_and_verified() {
    let directory = scratch("written");
    let table = directory.join("table");
    let table = table.to_str().unwrap();
    let options: [&[&str]; 6] = [
        &[],
        &["--layout", "gnu"],
        &["--sframe-version", "2"],
        &["--no-flex"],
        &["--threads", "2"],
        &["--layout", "gnu", "--sframe-version", "2"],
    ];
    for options in options {
        for address in ["0", "0x370", "0x7f0000"] {
            let mut arguments = vec!["linked.so", "--section", table, "--address", address];
            arguments.extend(options);
            assert!(run(&arguments).status.success(), "{arguments:?}");
            let verified = run(&["verify", "linked.so", "--sframe", table, "--address", address]);
            assert_eq!(verified.status.code(), Some(0), "{options:?} at {address}");
            let same = run(&["diff", "linked.so", table, "--address-b", address]);
            assert_eq!(same.status.code(), Some(0), "{options:?} at {address}");
        }
        let elsewhere = run(&["verify", "linked.so", "--sframe", table, "--address", "0x370"]);
        assert_eq!(elsewhere.status.code(), Some(1), "{options:?}: it lies at 0x7f0000");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_failure_leaves_the_output_as_it_was() {
    let directory = scratch("failure");
    let (table, broken) = (directory.join("table"), directory.join("broken.so"));
    fs::write(&table, b"precious").unwrap();
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    // readelf -S: .eh_frame at 0x2d0; its first record now claims more bytes than the section has.
    bytes[0x2d0..0x2d4].copy_from_slice(&0x7fff_0000_u32.to_le_bytes());
    fs::write(&broken, bytes).unwrap();
    let output = run(&[broken.to_str().unwrap(), "--section", table.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = "section .eh_frame: offset 0x0: record length 0x7fff0000 reaches beyond the section\n";
    assert!(error.starts_with("error: ") && error.ends_with(expected), "{error}");
    assert_eq!(fs::read(&table).unwrap(), b"precious");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn one_bad_function_affects_only_itself() {
    let directory = scratch("bad-function");
    let broken = directory.join("broken.so");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    // The second FDE's CIE pointer, 0x44 at 0x2d0 + 0x44 (readelf --debug-dump=frames), leads to no CIE.
    assert_eq!(bytes[0x2d0 + 0x44..][..4], [0x44, 0, 0, 0]);
    bytes[0x2d0 + 0x44..][..4].copy_from_slice(&3_u32.to_le_bytes());
    fs::write(&broken, bytes).unwrap();
    let broken = broken.to_str().unwrap();
    let output = run(&[broken, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["converted"], 4);
    assert_eq!(summary["reasons"], serde_json::json!({ "malformed-record": 1 }));
    assert_eq!(run(&[broken, "--min-coverage", "80"]).status.code(), Some(0));
    assert_eq!(run(&[broken, "--min-coverage", "80.1"]).status.code(), Some(1));
    assert_eq!(run(&[broken, "--verify"]).status.code(), Some(1), "what is not judged is not verified");
    let explained = String::from_utf8(run(&["explain", broken]).stdout).unwrap();
    assert!(explained.starts_with("omitted: section .eh_frame: offset 0x40: CIE pointer 0x3"), "{explained}");
}

/// If functions overlap, `explain` describes the function that a lookup finds.
#[test]
fn a_function_inside_another() {
    let overlapping = scratch("overlapping").join("overlapping.so");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    // We enlarge the first FDE's function, at 0x260, so that it reaches beyond the function at 0x283.
    assert_eq!(bytes[0x2d0 + 0x18 + 12..][..4], [0x20, 0, 0, 0]);
    bytes[0x2d0 + 0x18 + 12] = 0x40;
    fs::write(&overlapping, bytes).unwrap();
    let overlapping = overlapping.to_str().unwrap();
    for (address, start) in [("0x282", "0x281"), ("0x284", "0x283"), ("0x291", "0x260")] {
        let explained = run(&["explain", overlapping, address]);
        let explained = String::from_utf8(explained.stdout).unwrap();
        assert_eq!(explained.split([' ', ':']).next(), Some(start), "{address}: {explained}");
    }
}

/// A function whose FDE cannot be read has no known address, so it has no compact entry, not even in DWARF mode.
#[test]
fn an_unreadable_function_is_not_in_dwarf_mode() {
    let broken = scratch("unreadable").join("broken.so");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    bytes[0x2d0 + 0x44..][..4].copy_from_slice(&3_u32.to_le_bytes());
    fs::write(&broken, bytes).unwrap();
    let output = run(&["unwind-info", broken.to_str().unwrap()]);
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(printed.contains(": 5 functions: "), "{printed}");
    assert!(printed.lines().next().unwrap().ends_with(" in DWARF mode, 1 that cannot be read"), "{printed}");
    assert!(!printed.contains("malformed"), "{printed}");
}

/// A debug-only file has CFI and the addresses of the code, but not the code's bytes.
#[test]
fn no_compact_encoding_without_code_to_look_for_calls_in() {
    let stripped = scratch("without-code").join("linked.debug");
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let headers = word(&bytes, 0x28) as usize;
    for header in (0..usize::from(bytes[0x3c])).map(|number| headers + 64 * number) {
        // SHF_EXECINSTR, SHT_NOBITS
        if word(&bytes, header + 8) & 4 != 0 {
            bytes[header + 4] = 8;
        }
    }
    fs::write(&stripped, bytes).unwrap();
    let reasons = |file: &str| {
        let output = run(&["unwind-info", file, "--json"]);
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        summary["reasons"].clone()
    };
    let expected = serde_json::json!({ "cfa-expression": 1 });
    assert_eq!(reasons("linked.so"), expected);
    let [with_code, without] = ["linked.so", stripped.to_str().unwrap()].map(reasons);
    assert_eq!(with_code["code-unreadable"], serde_json::Value::Null);
    assert_eq!(without["code-unreadable"], 1, "{without}");
}

/// JSON has its own escapes, so a file's name in JSON is not escaped a second time.
#[test]
fn names_in_json() {
    let directory = scratch("names");
    fs::copy(corpus().join("linked.so"), directory.join("a\nb.so")).unwrap();
    for arguments in
        [&["dump", "--json"][..], &["lookup", "--json"], &["verify", "--json"], &["stats", "--json"]]
    {
        let mut command = command(arguments);
        command.arg("a\nb.so").current_dir(&directory);
        if arguments[0] == "lookup" {
            command.arg("0x27d");
        }
        let report: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        assert_eq!(report["file"], "a\nb.so", "{arguments:?}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = command(&["dump", "linked.so", "linked.so", "linked.so"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
}

#[test]
fn one_bad_file_of_many_does_not_hide_the_others() {
    let output = run(&["dump", "no-such-file", "linked.so", "container.s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stdout).unwrap().contains("File: linked.so\n"));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn errors_that_cannot_be_written_are_errors_still() {
    for arguments in [&["no-such-file"][..], &["verify", "no-such-file", "container.s"], &["linked.so"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = command(arguments).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn endless_inputs_are_not_read() {
    let output = run(&["dump", "/dev/zero"]);
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(printed, "error: /dev/zero: the input is a device, not a file or a pipe\n");
    assert_eq!(output.status.code(), Some(2));
    let mut child = command(&["dump", "/dev/stdin"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut endless = child.stdin.take().unwrap();
    // The pipe stays open.
    endless.write_all(b"yes\nyes\nyes\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let mut child =
        command(&["dump", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(corpus().join("linked.so")).unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Two pipes: one stays open after a section whose header states its length, and one never ends.
#[test]
fn a_bare_section_is_read_up_to_its_claimed_length() {
    let directory = scratch("endless");
    let table = directory.join("table");
    let made = run(&["linked.so", "--section", table.to_str().unwrap(), "--address", "0"]);
    assert!(made.status.success());
    let mut twice = fs::read(&table).unwrap();
    twice.extend([0; 100]);
    twice.extend(fs::read(&table).unwrap());
    // Offset 6 of compact-unwind.md's header: the index, here a sentinel alone.
    let page_table = [1_u32, 28, 0, 28, 0, 28, 1, 0x1000, 0, 40].map(u32::to_le_bytes).concat();
    for section in [fs::read(&table).unwrap(), twice, page_table] {
        let file = directory.join("section");
        fs::write(&file, &section).unwrap();
        let expected = run(&["dump", file.to_str().unwrap()]);
        assert!(expected.status.success(), "{}", String::from_utf8_lossy(&expected.stderr));
        let mut child =
            command(&["dump", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut endless = child.stdin.take().unwrap();
        endless.write_all(&section).unwrap();
        // Until the other end is closed.
        while endless.write_all(&[0; 4096]).is_ok() {}
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(output.stdout, expected.stdout);
    }
}

/// After the table comes a hole of a sparse file, which is not searched for another table.
#[test]
fn a_hole_after_a_table_is_not_read() {
    let directory = scratch("hole");
    let table = directory.join("table");
    let made = run(&["linked.so", "--section", table.to_str().unwrap(), "--address", "0"]);
    assert!(made.status.success());
    let expected = run(&["dump", table.to_str().unwrap()]);
    let file = fs::OpenOptions::new().append(true).open(&table).unwrap();
    // A run that read the whole file would take an hour.
    file.set_len(1 << 42).unwrap();
    let output = run(&["dump", table.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, expected.stdout);
}

#[test]
fn an_output_keeps_its_permissions_and_its_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = scratch("permissions");
    let write = |name: &str| {
        let path = directory.join(name);
        let output = run(&["linked.so", "--section", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    };
    let private = write("private");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
    write("private");
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
    symlink("target", directory.join("link")).unwrap();
    write("link");
    assert!(fs::symlink_metadata(directory.join("link")).unwrap().is_symlink());
    assert_eq!(fs::read(directory.join("target")).unwrap(), fs::read(&private).unwrap());
    write(&"n".repeat(250));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 4, "nothing is left beside them");
}

#[test]
fn names_stay_on_one_line() {
    let directory = scratch("control");
    let name = "a\nb\u{1b}[31m";
    fs::copy(corpus().join("linked.so"), directory.join(name)).unwrap();
    let printed = |arguments: &[&str]| {
        let output = command(arguments).current_dir(&directory).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let escaped = "a\\nb\\u{1b}[31m";
    assert!(printed(&["verify", name])[0].starts_with(&format!("{escaped}: 5 functions\n")));
    assert!(printed(&["stats", name])[0].starts_with(&format!("{escaped}:\n")));
    assert!(printed(&[name])[1].starts_with(&format!("{escaped}: 5 functions: ")));
    let missing = printed(&["dump", "no\nsuch"]);
    assert_eq!(missing[1], "error: no\\nsuch: No such file or directory (os error 2)\n");
    let json: serde_json::Value = serde_json::from_str(&printed(&["verify", "--json", name])[0]).unwrap();
    assert_eq!(json["file"], name);
}

#[test]
fn errors_of_short_files_print_only_their_bytes() {
    let directory = scratch("short");
    let nothing_known = "neither an ELF file, a Mach-O file nor an archive";
    for (bytes, expected) in
        [(&b""[..], "it is empty"), (b"\0", "starts with 00"), (b"ab\0\0e", "starts with 61 62 00 00")]
    {
        fs::write(directory.join("short"), bytes).unwrap();
        let output = command(&["dump", "short"]).current_dir(&directory).output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(printed, format!("error: short: offset 0x0: {nothing_known}: {expected}\n"));
        assert_eq!(output.status.code(), Some(2));
    }
}
