//! Tests archives: members with and without CFI and tables, and members that cannot be read.

use std::fs;
use std::path::Path;

use crate::program::{corpus, run, scratch};

/// Writes an archive as `ar` does. Names have at most 15 bytes.
pub fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, contents) in members {
        let (name, size) = (format!("{name}/"), contents.len());
        bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).bytes());
        bytes.extend(*contents);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

/// Returns status, standard output and standard error.
fn printed(verb: &str, file: &Path) -> (i32, String, String) {
    let output = run(&[verb, file.to_str().unwrap()]);
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), stdout, stderr)
}

fn of_corpus(name: &str) -> Vec<u8> {
    fs::read(corpus().join(name)).unwrap()
}

#[test]
fn what_no_member_has_is_reported_once() {
    let file = scratch("none_has").join("none.a");
    let (with_cfi, text) = (of_corpus("debug_frame.none.o"), b"some text".as_slice());
    let no_table = ".sframe table";
    let cases: [(&[_], &[_]); 3] = [
        (&[("a.o", &with_cfi[..]), ("b.o", &with_cfi)], &[("verify", no_table), ("dump", no_table)]),
        (&[("a.o", &with_cfi)], &[("verify", no_table), ("dump", no_table)]),
        (
            &[("a.txt", text)],
            &[("verify", "object"), ("dump", "object"), ("stats", "object"), ("unwind-info", "object")],
        ),
    ];
    for (members, verbs) in cases {
        fs::write(&file, archive(members)).unwrap();
        for (verb, what) in verbs {
            let hint = if *what == ".sframe table" { " (cfi2sframe FILE -o OUT adds one)" } else { "" };
            let expected = format!("error: {}: the file has no {what}{hint}\n", file.display());
            assert_eq!(printed(verb, &file), (2, String::new(), expected), "{verb}");
        }
    }
}

#[test]
fn members_without_a_table_are_named_if_others_have_one() {
    let file = scratch("some_have").join("some.a");
    let [with_table, with_cfi] = ["linkable.o", "debug_frame.none.o"].map(of_corpus);
    fs::write(&file, archive(&[("a.o", &with_cfi), ("b.o", &with_table)])).unwrap();
    let (status, stdout, stderr) = printed("verify", &file);
    assert!(stdout.contains("some.a(b.o): 4 functions\n"), "{stdout}");
    let expected = "some.a(a.o): has call frame information, but no .sframe table\n";
    assert!(stderr.ends_with(expected) && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(status, 1);
    // `dump` prints the tables that exist, and does not complain about the other members.
    assert_eq!((printed("dump", &file).0, printed("dump", &file).2), (0, String::new()));
}

#[test]
fn a_member_without_cfi_is_no_error_if_others_have_some() {
    let file = scratch("some_cfi").join("some.a");
    let mut without_cfi = of_corpus("linkable.o")[..64].to_vec();
    // We set `e_shoff` to 0: the ELF header has no section headers.
    without_cfi[40..48].fill(0);
    without_cfi[58..64].fill(0);
    let with_cfi = of_corpus("debug_frame.none.o");
    fs::write(&file, archive(&[("a.o", &without_cfi), ("b.o", &with_cfi)])).unwrap();
    for verb in ["stats", "unwind-info"] {
        let (status, _, stderr) = printed(verb, &file);
        assert_eq!((status, stderr.contains("error")), (0, false), "{verb}: {stderr}");
    }
    fs::write(&file, archive(&[("a.o", &without_cfi), ("b.o", &without_cfi)])).unwrap();
    for verb in ["stats", "unwind-info"] {
        let expected = format!("error: {}: the file has no call frame information\n", file.display());
        assert_eq!(printed(verb, &file), (2, String::new(), expected), "{verb}");
    }
}

#[test]
fn damaged_archives_and_fat_files_are_errors() {
    let file = scratch("damaged_archive").join("damaged");
    let object = of_corpus("linkable.o");
    let mut symbols_without_end = archive(&[("", &[0; 4]), ("a.o", &object)]);
    symbols_without_end[8 + 48..][..10].copy_from_slice(b"9999999999");
    let mut member_without_end = archive(&[("a.o", &object)]);
    member_without_end[8 + 48..][..10].copy_from_slice(b"9999999999");
    let no_slice = [0xcafe_babe_u32, 0].map(u32::to_be_bytes).concat();
    let mut bad_slice = [0xcafe_babe_u32, 1, 0x0100_0007, 0, 32, 16, 0].map(u32::to_be_bytes).concat();
    bad_slice.resize(48, b'x');
    let cases = [
        (b"!<arch>\n".to_vec(), "damaged: offset 0x8: an archive without members\n"),
        (symbols_without_end, "damaged: offset 0x8: damaged archive member\n"),
        (member_without_end, "damaged: offset 0x8: damaged archive member\n"),
        (no_slice, "damaged: offset 0x4: damaged fat header (size or count 0x0)\n"),
        (
            bad_slice,
            "starts with 78 78 78 78, as text: a source, or a linker script that names the library\n",
        ),
    ];
    for (bytes, error) in cases {
        fs::write(&file, bytes).unwrap();
        for verb in ["stats", "dump", "verify", "unwind-info"] {
            let (status, stdout, stderr) = printed(verb, &file);
            assert_eq!((status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{verb}: {stderr}");
            assert!(stderr.ends_with(error), "{verb}: {stderr}");
        }
    }
}
