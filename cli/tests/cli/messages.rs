//! Tests wrong command lines, as a new user types them. Each message is one line that names the file, what is wrong,
//! and what to type instead.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

#[cfg(target_arch = "x86_64")]
use cfipack_testkit::rustc::assemble;

use crate::program::{command, corpus, run_in, scratch};

/// Makes a directory with a linked file, an object, an archive, a source, a directory and files of other kinds.
fn files(name: &str) -> std::path::PathBuf {
    let directory = scratch(name);
    for name in ["linked.so", "linkable.o", "members.a", "debug_frame.none.o"] {
        fs::copy(corpus().join(name), directory.join(name)).unwrap();
    }
    fs::create_dir(directory.join("d")).unwrap();
    let source = "int main(void) { return 0; }\n";
    fs::write(directory.join("m.c"), source).unwrap();
    fs::write(directory.join("bitcode"), [0xde, 0xc0, 0x17, 0x0b, 0, 0, 0, 0]).unwrap();
    fs::write(directory.join("cache"), b"dyld_v1  arm64e\0").unwrap();
    fs::write(directory.join("coff"), [0x64, 0x86, 2, 0, 0, 0, 0, 0]).unwrap();
    fs::write(directory.join("exe"), b"MZ\x90\0\x03\0\0\0").unwrap();
    fs::write(directory.join("text.so"), b"/* GNU ld script */\n").unwrap();
    // ELF: class, byte order, type, machine.
    for (name, class, kind, machine) in [
        ("riscv", 2, 3, 0xf3),
        ("loongarch", 2, 3, 0x102),
        ("core", 2, 4, 0x3e),
        ("i386", 1, 3, 3),
        ("armv7", 1, 3, 0x28),
        ("x32", 1, 3, 0x3e),
    ] {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, 1, 1];
        bytes.resize(16, 0);
        bytes.extend([kind, 0].into_iter().chain(u16::to_le_bytes(machine)));
        bytes.resize(64, 0);
        fs::write(directory.join(name), bytes).unwrap();
    }
    // Mach-O: magic, CPU type and subtype, file type.
    for (name, magic, cpu, kind) in [
        ("dsym", 0xfeed_facf_u32, 0x0100_000c_u32, 10_u32),
        ("fileset", 0xfeed_facf, 0x0100_000c, 12),
        ("powerpc", 0xfeed_face, 18, 2),
        ("arm", 0xfeed_face, 12, 2),
    ] {
        let words = [magic, cpu, 0, kind, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
        fs::write(directory.join(name), words).unwrap();
    }
    let words = [0xfeed_facf_u32, 0x0100_0012, 0, 2, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    fs::write(directory.join("big-endian"), words).unwrap();
    directory
}

/// Returns the first line of standard error of a run that fails, without `error: `.
fn refused(directory: &Path, arguments: &[&str]) -> String {
    let output = run_in(directory, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or_else(|| panic!("{arguments:?}: {text}")).to_owned()
}

#[test]
fn what_is_typed_wrong() {
    let directory = files("messages");
    let cases: [(&[&str], &str); 30] = [
        (&["linked.so", "-o", "no/out"], "no/out: there is no directory no"),
        (&["linked.so", "--section", "no/out"], "no/out: there is no directory no"),
        (&["linked.so", "-o", "d"], "d: a directory; the output is a file"),
        (&["linked.so", "--section", "d"], "d: a directory; the output is a file"),
        (&["strip", "linked.so", "-o", "no/out"], "no/out: there is no directory no"),
        (&["merge", "linked.so", "--section", "no/out"], "no/out: there is no directory no"),
        (&["unwind-info", "linked.so", "--section", "no/out"], "no/out: there is no directory no"),
        (&["compact-unwind", "dsym", "-o", "no/out"], "no/out: there is no directory no"),
        (&["verfy", "linked.so"], "verfy: no file, and no command; a similar command: verify"),
        (&["dmp"], "dmp: no file, and no command; a similar command: dump"),
        (&["stat", "linked.so"], "stat: no file, and no command; a similar command: stats"),
        (&["unwind_info", "x"], "unwind_info: no file, and no command; a similar command: unwind-info"),
        (
            &["linked.so", "linkable.o", "--section", "x"],
            "--section: 2 inputs, but one section: convert each by itself",
        ),
        (&["no-such-file"], "no-such-file: No such file or directory (os error 2)"),
        (&["d"], "d: a directory: --in-place -r puts tables into the files in it"),
        (&["--in-place", "d"], "d: a directory: use --recursive"),
        (&["strip", "d"], "d: a directory: use --recursive"),
        (&["-r", "d"], "--recursive: needs --in-place: it is for files that are changed in place"),
        (
            &["linked.so", "--jobs", "4"],
            "--jobs: needs --in-place: it is for files that are changed in place",
        ),
        (
            &["strip", "linked.so", "-r", "-o", "x"],
            "--recursive: needs no -o: it is for files that are changed in place",
        ),
        (&["linked.so", "--verbose"], "--verbose: needs -o or --in-place, without which no file is written"),
        (&["--in-place", "-"], "-: standard input cannot be replaced: write the result with -o"),
        (&["strip", "-"], "-: standard input cannot be replaced: write the result with -o"),
        (
            &["dump", "debug_frame.none.o"],
            "debug_frame.none.o: the file has no .sframe table (cfi2sframe FILE -o OUT adds one)",
        ),
        (
            &["lookup", "debug_frame.none.o", "main"],
            "debug_frame.none.o: the file has no .sframe table (cfi2sframe FILE -o OUT adds one)",
        ),
        (
            &["merge", "text.so"],
            "text.so: offset 0x0: neither an ELF file, a Mach-O file nor an archive: starts with 2f 2a 20 47, as text: a source, or a linker script that names the library",
        ),
        (&["explain", "linked.so", "nosuch"], "linked.so: no symbol of a function has the name nosuch"),
        (&["linked.so", "--arch", "aarch64"], "linked.so: the file has no aarch64, but x86_64"),
        (
            &["lookup", "members.a", "1"],
            "members.a: an archive; this command needs one object: extract its members",
        ),
        (
            &["strip", "m.c"],
            "m.c: offset 0x0: neither an ELF file, a Mach-O file nor an archive: starts with 69 6e 74 20, as text: a source, or a linker script that names the library",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(refused(&directory, arguments), expected, "{arguments:?}");
    }
    let arch = refused(&directory, &["dump", "--arch", "foo", "linked.so"]);
    assert!(arch.ends_with("x86_64h, i386, arm64, arm64e, arm64e.x1, arm64_32, armv7, armv7s, armv7k, ppc, ppc64, aarch64, aarch64_be, s390x"), "{arch}");
    let place = refused(&directory, &["lookup", "linked.so", "0xzz"]);
    assert!(place.ends_with("in an object .text+0x4; or a symbol"), "{place}");
}

/// Kinds of files are recognized by the headers of ELF and Mach-O, and by the first bytes of other files.
#[test]
fn what_has_a_name_is_named() {
    let directory = files("named");
    for (file, expected) in [
        ("riscv", "offset 0x12: machine RISC-V (0xf3) is not supported"),
        ("loongarch", "offset 0x12: machine LoongArch (0x102) is not supported"),
        ("core", "offset 0x10: file type core dump (0x4) is not supported"),
        ("i386", "offset 0x12: 32-bit machine i386 (0x3) is not supported"),
        ("armv7", "offset 0x12: 32-bit machine ARM (0x28) is not supported"),
        ("x32", "offset 0x12: 32-bit machine x32 (0x3e) is not supported"),
        ("dsym", "offset 0xc: file type dSYM, debug information of another file (0xa) is not supported"),
        (
            "fileset",
            "offset 0xc: file type fileset, a collection of kernel extensions (0xc) is not supported",
        ),
        ("powerpc", "offset 0x4: CPU type PowerPC (0x12) is not supported"),
        ("arm", "offset 0x4: CPU type 32-bit ARM (0xc) is not supported"),
        ("big-endian", "offset 0x0: byte order big-endian (0xcffaedfe) is not supported"),
        ("bitcode", "starts with de c0 17 0b, as LLVM bitcode: the code is made at the link"),
        ("cache", "starts with 64 79 6c 64, as a dyld shared cache: extract its libraries"),
        ("coff", "starts with 64 86 02 00, as a COFF object"),
        ("exe", "starts with 4d 5a 90 00, as a PE file"),
    ] {
        for arguments in [&[file][..], &["dump", file], &["stats", file], &["--in-place", file]] {
            let text = refused(&directory, arguments);
            assert!(
                text.starts_with(&format!("{file}: ")) && text.ends_with(expected),
                "{arguments:?}: {text}"
            );
        }
    }
}

/// Runs the command with a file on standard input.
fn piped(directory: &Path, input: &str, arguments: &[&str]) -> Output {
    let mut child = command(arguments);
    child.current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(&fs::read(directory.join(input)).unwrap());
    child.wait_with_output().unwrap()
}

/// From a pipe, the report is the same as for the file, under another name.
#[test]
fn a_dash_is_standard_input() {
    let directory = files("dash");
    assert!(run_in(&directory, &["linked.so", "-o", "table.so"]).status.success());
    let verbs: [&[&str]; 9] = [
        &["dump", "FILE"],
        &["lookup", "FILE", "0x27d"],
        &["verify", "FILE"],
        &["verify", "linked.so", "--sframe", "FILE"],
        &["diff", "FILE", "linked.so"],
        &["stats", "FILE"],
        &["explain", "FILE"],
        &["gaps", "FILE"],
        &["FILE", "--json"],
    ];
    for verb in verbs {
        let with =
            |name: &'static str| verb.iter().map(move |word| if *word == "FILE" { name } else { word });
        let from_file = run_in(&directory, &with("table.so").collect::<Vec<_>>());
        let from_pipe = piped(&directory, "table.so", &with("-").collect::<Vec<_>>());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(from_pipe.status, from_file.status, "{verb:?}: {}", text(from_pipe.stderr));
        assert_eq!(text(from_pipe.stdout), text(from_file.stdout).replace("table.so", "-"), "{verb:?}");
    }
    // The command works as a filter too.
    let embedded = piped(&directory, "linked.so", &["-", "-o", "-"]);
    assert!(embedded.status.success(), "{embedded:?}");
    assert_eq!(embedded.stdout, fs::read(directory.join("table.so")).unwrap());
    let stripped = piped(&directory, "table.so", &["strip", "-", "-o", "new"]);
    assert!(stripped.status.success(), "{stripped:?}");
    assert!(run_in(&directory, &["strip", "table.so", "-o", "stripped"]).status.success());
    assert_eq!(fs::read(directory.join("new")).unwrap(), fs::read(directory.join("stripped")).unwrap());
}

/// clap's messages and ours start with the same word, in colour where colours are wanted.
#[test]
fn messages_have_the_style_of_claps() {
    let directory = files("colours");
    let first_word = |variable: &str, arguments: &[&str]| {
        let mut command = command(arguments);
        let output = command.current_dir(&directory).env(variable, "1").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        text.split_once("error:").unwrap_or_else(|| panic!("{text}")).0.to_owned()
    };
    let [of_clap, own] = [&["linked.so", "--no-such-option"], &["dump", "no-such-file"]];
    for (variable, is_coloured) in [("CLICOLOR_FORCE", true), ("NO_COLOR", false)] {
        let prefix = first_word(variable, own);
        assert_eq!(prefix, first_word(variable, of_clap));
        assert_eq!(prefix.starts_with('\x1b'), is_coloured, "{prefix:?}");
    }
}

/// `_start` is an outermost frame, where glibc 2.43's `backtrace()` returns nothing.
#[test]
#[cfg(target_arch = "x86_64")]
fn version_2_with_outermost_frames_is_not_for_glibc() {
    let directory = scratch("outermost");
    let source = ".globl f\nf: .cfi_startproc\n.cfi_undefined 16\nnop\n.cfi_endproc\n";
    assemble(&directory, source, "f.o");
    let words = "1 row of outermost frames, with which backtrace() of glibc 2.43 returns 0 frames";
    for (option, is_said) in [
        (["--sframe-version", "2"], true),
        (["--for", "glibc-2.43"], false),
        (["--sframe-version", "3"], false),
    ] {
        let output = run_in(&directory, &[&["f.o", "-o", "g.o"], &option[..]].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.contains(words), is_said, "{option:?}: {text}");
    }
}
