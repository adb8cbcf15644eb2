//! Tests `cfi2sframe-ld` with real linkers and compilers, and with scripts that stand in for a linker.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use cfipack_testkit::needs;
use cfipack_testkit::random::{Case, Random, cases};
use cfipack_testkit::rustc::rustc;
use object::read::elf::ElfFile64;
use object::{Object as _, elf};

use crate::program::{command, names, scratch};

pub const DRIVER: &str = env!("CARGO_BIN_EXE_cfi2sframe-ld");

const PROGRAM: &str = r#"
#include <stdio.h>
int depth(int n) { return n ? 1 + depth(n - 1) : 0; }
int main(int argc, char **argv) { printf("%d\n", depth(argc + 40)); return argv[0] == 0; }
"#;

pub fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Asserts that a program header of the file leads to a table, and that the table is right.
pub fn check_table(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    assert!(file.section_by_name(".sframe").is_some(), "{}", path.display());
    let mut headers = file.elf_program_headers().iter().map(|header| header.p_type.get(file.endian()));
    assert!(headers.any(|kind| kind == elf::PT_GNU_SFRAME), "{}", path.display());
    let verify = command(&["verify", path.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&verify.stdout).into_owned();
    assert!(text.contains("functions: ") && text.contains(" 0 different, "), "{}: {text}", path.display());
}

/// Runs every linker as `cc -B DIRECTORY -fuse-ld=NAME`. DIRECTORY has a link of that name to the driver.
#[test]
#[ignore = "needs gcc, ld.bfd, ld.gold and ld.lld"]
fn linkers_by_gcc() {
    needs::program("gcc", "gcc");
    let directory = scratch("linker-driver");
    fs::write(directory.join("source.c"), PROGRAM).unwrap();
    let linkers = [
        ("ld", "binutils"),
        ("ld.bfd", "binutils"),
        ("ld.gold", "binutils or binutils-gold"),
        ("ld.lld", "lld"),
    ];
    for (name, package) in linkers {
        needs::program(name, package);
        symlink(DRIVER, directory.join(name)).unwrap();
        for flags in [&["-pie", "-fPIE"][..], &["-no-pie"], &["-static"], &["-shared", "-fPIC"]] {
            let output = directory.join(format!("{name}{}", flags[0]));
            let mut gcc = Command::new("gcc");
            gcc.args(["-O2", "source.c", "-B"]).arg(&directory).args(flags).arg("-o").arg(&output);
            if let Some(linker) = name.strip_prefix("ld.") {
                gcc.arg(format!("-fuse-ld={linker}"));
            }
            successful(gcc.arg("-Wl,--strict").current_dir(&directory));
            check_table(&output);
            if flags[0] != "-shared" {
                assert_eq!(successful(&mut Command::new(&output)).stdout, b"41\n", "{}", output.display());
            }
        }
    }
}

#[test]
#[ignore = "needs clang and ld.lld"]
fn clang_with_ld_path() {
    [("clang", "clang"), ("ld.lld", "lld")].iter().for_each(|(tool, package)| needs::program(tool, package));
    let directory = scratch("linker-driver-clang");
    fs::write(directory.join("source.c"), PROGRAM).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["-O2", "source.c", "-o", "by-clang"]).arg(format!("--ld-path={DRIVER}"));
    successful(clang.env("CFI2SFRAME_LD", "ld.lld").current_dir(&directory));
    let output = directory.join("by-clang");
    check_table(&output);
    assert_eq!(successful(&mut Command::new(&output)).stdout, b"41\n");
}

/// `rustc -C linker` names our driver, which runs the compiler driver that Rust uses.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn rustc_with_the_driver() {
    let directory = scratch("linker-driver-rustc");
    fs::write(directory.join("main.rs"), r#"fn main() { println!("{}", std::env::args().count() + 40) }"#)
        .unwrap();
    let driver = directory.join("cfi2sframe-cc");
    symlink(DRIVER, &driver).unwrap();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["-O", "main.rs", "-o", "by-rustc"]).arg(format!("-Clinker={}", driver.display()));
    successful(rustc.env("CFI2SFRAME_LD_OPTIONS", "--for glibc-2.43").current_dir(&directory));
    let output = directory.join("by-rustc");
    check_table(&output);
    let dump = successful(&mut command(&["dump", output.to_str().unwrap()]));
    assert!(String::from_utf8_lossy(&dump.stdout).contains("SFRAME_VERSION_2"));
    assert_eq!(successful(&mut Command::new(&output)).stdout, b"41\n");
}

/// Copies a program in a process of its own. If this process had the copy open, a test that starts another process at this
/// moment would hand the open file on, and the system refuses to run a file that is open for writing.
fn copy_program(from: &Path, to: &Path) {
    successful(Command::new("cp").args([from, to]));
}

/// Returns `PATH` with these directories before the others.
fn path_from(first: &[&Path]) -> OsString {
    let rest = env::var_os("PATH").unwrap_or_default();
    let first = first.iter().map(|directory| directory.to_path_buf());
    env::join_paths(first.chain(env::split_paths(&rest))).unwrap()
}

/// Writes `script` into a directory `bin` that is early in `PATH`, and calls the driver by the script's name. Returns
/// the output and the directory.
fn driven(name: &str, script: &str, arguments: &[&OsStr], variables: &[(&str, &str)]) -> (Output, PathBuf) {
    let directory = scratch(name);
    let bin = directory.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("script"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(bin.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    copy_program(&bin.join("script"), &bin.join("ld.x"));
    // With `gcc -B` the driver comes first in `PATH`. It has to skip itself when it looks for the linker.
    symlink(DRIVER, directory.join("ld.x")).unwrap();
    let path = path_from(&[&directory, &bin]);
    let mut driver = Command::new(directory.join("ld.x"));
    driver.args(arguments).current_dir(&directory).env("PATH", path).envs(variables.iter().copied());
    (driver.output().unwrap(), directory)
}

#[test]
fn arguments_and_status_are_the_linkers() {
    let not_unicode = OsStr::from_bytes(b"\xff");
    let arguments = ["-o", "out put", "", "--in-place", "@none"].map(OsStr::new);
    let arguments = [&arguments[..], &[not_unicode]].concat();
    let (output, _) = driven("linker-driver-arguments", r#"printf '<%s>' "$@"; exit 37"#, &arguments, &[]);
    assert_eq!(output.stdout, b"<-o><out put><><--in-place><@none><\xff>");
    assert_eq!(output.status.code(), Some(37));
    let (output, _) = driven("linker-driver-signal", "kill -9 $$", &[], &[]);
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn only_what_the_run_linked_is_changed() {
    let linked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/linked.so");
    let original = fs::read(&linked).unwrap();
    let linked = linked.to_str().unwrap();

    // The second call only prints a version. The output of the first call must stay as it is.
    let script = format!("[ \"$1\" = --version ] || cp {linked} a.out");
    let (_, directory) = driven("linker-driver-stale", &script, &[], &[]);
    let embedded = fs::read(directory.join("a.out")).unwrap();
    assert_ne!(embedded, original);
    fs::write(directory.join("a.out"), &original).unwrap();
    let path = path_from(&[&directory.join("bin")]);
    successful(
        Command::new(directory.join("ld.x")).arg("--version").current_dir(&directory).env("PATH", path),
    );
    assert_eq!(fs::read(directory.join("a.out")).unwrap(), original);

    // The driver ignores outputs that are no ELF files, or not linked.
    let object = linked.replace("linked.so", "linkable.o");
    for (name, script) in [("text", "echo text >a.out".to_owned()), ("object", format!("cp {object} a.out"))]
    {
        let (output, directory) = driven(&format!("linker-driver-{name}"), &script, &[], &[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let left = fs::read(directory.join("a.out")).unwrap();
        assert!(left == b"text\n" || left == fs::read(&object).unwrap());
    }
}

/// If a file cannot take a table, the driver warns and leaves the file as the linker wrote it. On request this is an error.
#[test]
fn refusals() {
    let linked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/linked.so");
    // Bytes after the sections, which an editor of ELF files may neither drop nor move.
    let script = format!("cp {} a.out; echo appended >>a.out", linked.display());
    for (required, arguments, code) in [
        ("", &[][..], 0),
        ("0", &[], 0),
        ("1", &[], 1),
        ("", &["--strict"], 1),
        ("0", &["x.o", "--strict"], 1),
    ] {
        let variables = [("CFI2SFRAME_LD_REQUIRED", required)];
        // The script refuses `--strict`, as linkers refuse options that they do not have.
        let script = format!("for it; do [ \"$it\" != --strict ] || exit 9; done; {script}");
        let arguments: Vec<&OsStr> = arguments.iter().map(|argument| OsStr::new(*argument)).collect();
        let (output, directory) = driven("linker-driver-refused", &script, &arguments, &variables);
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(messages.contains("warning: cfi2sframe-ld: a.out: not changed: "), "{messages}");
        assert_eq!(output.status.code(), Some(code));
        let expected = [&fs::read(&linked).unwrap()[..], b"appended\n"].concat();
        assert_eq!(fs::read(directory.join("a.out")).unwrap(), expected);
    }
    let variables = [("CFI2SFRAME_LD_OPTIONS", "--no-such-option")];
    let (output, _) =
        driven("linker-driver-options", &format!("cp {} a.out", linked.display()), &[], &variables);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("CFI2SFRAME_LD_OPTIONS=--no-such-option"));
}

/// Writes a linked file without call frame information.
fn without_cfi() -> PathBuf {
    const SOURCE: &str = r#"
#![no_std]
core::arch::global_asm!(".globl function\nfunction: nop");
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
"#;
    let directory = scratch("linker-driver-without-cfi");
    fs::write(directory.join("bare.rs"), SOURCE).unwrap();
    let kind = ["bare.rs", "--crate-type=cdylib", "-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib"];
    rustc(&directory, &[&kind[..], &["-Cforce-unwind-tables=no", "-o", "bare.so"]].concat());
    directory.join("bare.so")
}

/// A link that must have a table fails if the linker has written nothing that could have a table.
#[test]
fn a_table_in_the_end() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container");
    let [linked, object] = ["linked.so", "linkable.o"].map(|name| corpora.join(name));
    let [linked, object] = [linked, object].map(|path| format!("cp {} a.out", path.display()));
    for (name, script, arguments, message) in [
        ("linked", &linked[..], &[][..], ""),
        ("relocatable", &object, &["-r"], ""),
        ("question", "echo 1.0", &["--version"], ""),
        ("elsewhere", "echo >b.out", &[], "a.out: the linker has not written it: no table"),
        ("binary", "echo text >a.out", &["--oformat", "binary"], "a.out: not an ELF file: no table"),
        (
            "nothing",
            &format!("cp {} a.out", without_cfi().display()),
            &[],
            "a.out: no call frame information",
        ),
    ] {
        let arguments: Vec<&OsStr> = arguments.iter().map(|argument| OsStr::new(*argument)).collect();
        for (required, code) in [("", 0), ("1", i32::from(!message.is_empty()))] {
            let variables = [("CFI2SFRAME_LD_REQUIRED", required)];
            let (output, _) = driven(&format!("linker-driver-{name}"), script, &arguments, &variables);
            let messages = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{name}: {messages}");
            assert!(code == 0 && messages.is_empty() || messages.contains(message), "{name}: {messages}");
        }
    }
}

/// The driver also removes its own argument from a response file.
#[test]
fn strict_in_a_response_file() {
    let script = r#"case $1 in @*) cat "${1#@}";; esac; exit 0"#;
    let directory = scratch("linker-driver-arguments-file");
    fs::write(directory.join("file"), "--strict 'a b'").unwrap();
    let argument = format!("@{}", directory.join("file").display());
    let arguments = ["x.o", &argument, "--version"].map(OsStr::new);
    let (output, _) = driven("linker-driver-strict-file", script, &arguments, &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "\"x.o\"\n\"a b\"\n\"--version\"\n");
    assert_eq!(output.status.code(), Some(0));
}

/// The driver takes any arguments and response files, and any file that the linker leaves. It passes the linker's status
/// on, or ends with an error of its own, and changes nothing that it cannot read.
#[test]
fn any_arguments_and_outputs() {
    const WORDS: [&str; 14] = [
        "--strict",
        "-Wl,--strict",
        "-Wl,",
        "-o",
        "-oout",
        "@file",
        "@",
        "@none",
        "'",
        "\"",
        "\\",
        " ",
        "\n",
        "\u{e9}",
    ];
    let linked =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/linked.so")).unwrap();
    let (_, directory) = driven("linker-driver-any", "cp damaged out; exit $CODE", &[], &[("CODE", "1")]);
    let path = path_from(&[&directory.join("bin")]);
    let (seed, count) = cases("any arguments of the driver", 150);
    let mut changed = 0;
    for number in 0..count as u64 {
        let (_case, mut random) = Case::new(seed.wrapping_add(number));
        let text =
            |random: &mut Random| (0..random.below(12)).map(|_| random.pick(&WORDS)).collect::<String>();
        fs::write(directory.join("file"), text(&mut random)).unwrap();
        let mut damaged = linked.clone();
        for _ in 0..random.below(9) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.byte(0, 255);
        }
        if random.chance(20) {
            damaged.truncate(random.below(linked.len() as u64) as usize);
        }
        fs::write(directory.join("damaged"), &damaged).unwrap();
        let code = random.pick(&[0, 0, 0, 1, 77]);
        let mut driver = Command::new(directory.join("ld.x"));
        driver.args((0..random.below(4)).map(|_| text(&mut random))).args(["-o", "out"]);
        driver.current_dir(&directory).env("PATH", &path).env("CODE", code.to_string());
        let output = driver.output().unwrap();
        let (status, messages) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        // Without --strict, what becomes of the table does not change the linker's status.
        assert!(status == Some(code) || code == 0 && matches!(status, Some(1 | 2)), "{status:?}: {messages}");
        assert!(!messages.contains("panicked"), "{messages}");
        let out = fs::read(directory.join("out")).unwrap();
        // Only what the linker has linked is changed, and only if it is an ELF file.
        let has_table = code == 0 && damaged.starts_with(b"\x7fELF") && out.starts_with(b"\x7fELF");
        assert!(out == damaged || has_table, "{messages}");
        changed += usize::from(out != damaged);
        let left = names(&directory);
        let known = ["a.out", "bin", "damaged", "file", "ld.x", "out"];
        assert!(left.iter().all(|name| known.contains(&&**name)), "{left:?}");
    }
    assert!(changed * 10 > count, "{changed} of {count} files got a table");
}

/// Makes response files that name themselves, or 1998 or 1999 others. The bool says whether `ld` refuses them as too many.
fn response_files(name: &str) -> [(PathBuf, bool); 3] {
    let directory = scratch(name);
    let [itself, empty, few, many] = ["itself", "empty", "few", "many"].map(|name| directory.join(name));
    let at = |path: &Path| format!("@{} ", path.display());
    fs::write(&itself, at(&itself).repeat(3)).unwrap();
    fs::write(&empty, "").unwrap();
    fs::write(&few, at(&empty).repeat(1998)).unwrap();
    fs::write(&many, at(&empty).repeat(1999)).unwrap();
    [(itself, true), (few, false), (many, true)]
}

#[test]
#[ignore = "needs ld"]
fn ld_refuses_too_many_response_files() {
    needs::program("ld", "binutils");
    for (file, is_refused) in response_files("linker-driver-response-ld") {
        let ld = Command::new("ld").arg(format!("@{}", file.display())).output().unwrap();
        let messages = String::from_utf8_lossy(&ld.stderr);
        assert_eq!(messages.contains("too many @-files"), is_refused, "{}: {messages}", file.display());
    }
}

/// The driver refuses the response files that `ld` refuses, and no others. It does so before it runs the linker.
#[test]
fn too_many_response_files() {
    let linked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/linked.so");
    for (file, is_refused) in response_files("linker-driver-response") {
        let argument = format!("@{}", file.display());
        // The linker here is a script, which accepts any number of response files.
        for (required, code) in [("", 0), ("1", i32::from(is_refused))] {
            let (output, directory) = driven(
                "linker-driver-many",
                &format!("cp {} a.out", linked.display()),
                &[OsStr::new(&argument)],
                &[("CFI2SFRAME_LD_REQUIRED", required)],
            );
            let messages = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                messages.contains("warning: cfi2sframe-ld: too many @-files"),
                is_refused,
                "{argument}: {messages}"
            );
            assert_eq!(output.status.code(), Some(code), "{argument}: {messages}");
            let is_unchanged = fs::read(directory.join("a.out")).unwrap() == fs::read(&linked).unwrap();
            assert_eq!(is_unchanged, is_refused, "{argument}");
        }
    }
}

/// A copy of the driver is not recognized as a link to it. The copy would call itself for ever.
#[test]
fn copies_of_the_driver() {
    let directory = scratch("linker-driver-copy");
    copy_program(DRIVER.as_ref(), &directory.join("ld.y"));
    let mut driver = Command::new(DRIVER);
    driver.env("CFI2SFRAME_LD", directory.join("ld.y")).env("PATH", &directory);
    let output = driver.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(messages.contains("no linker ld.y in PATH"), "{messages}");

    // Called by its path, the copy is found again and again.
    fs::create_dir(directory.join("other")).unwrap();
    copy_program(DRIVER.as_ref(), &directory.join("other/ld.y"));
    let path = env::join_paths([&directory, &directory.join("other")]).unwrap();
    let output = Command::new(directory.join("ld.y")).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(messages.contains("would run itself"), "{messages}");
}
