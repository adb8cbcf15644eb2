//! `cfi2sframe-ld`: real linkers and compilers, and scripts in a linker's place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use cfipack_tests::not_tested::skipped;

use crate::program::{command, scratch};

pub const DRIVER: &str = env!("CARGO_BIN_EXE_cfi2sframe-ld");

const PROGRAM: &str = r#"
#include <stdio.h>
int depth(int n) { return n ? 1 + depth(n - 1) : 0; }
int main(int argc, char **argv) { printf("%d\n", depth(argc + 40)); return argv[0] == 0; }
"#;

pub fn is_installed(program: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .any(|directory| directory.join(program).exists())
}

pub fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The file has a table that a program header leads to, and the table is right.
pub fn check_table(path: &Path) {
    let headers = Command::new("readelf").arg("-lSW").arg(path).output().unwrap();
    let headers = String::from_utf8_lossy(&headers.stdout).into_owned();
    assert!(headers.contains(".sframe"), "{}: {headers}", path.display());
    // As readelf names the header's type that it does not know yet.
    let is_found = headers.contains("GNU_SFRAME") || headers.contains("LOOS+0x474e554");
    assert!(is_found, "{}: {headers}", path.display());
    let verify = command(&["verify", path.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&verify.stdout).into_owned();
    assert!(text.contains("functions: ") && text.contains(" 0 different, "), "{}: {text}", path.display());
}

/// Every linker at hand through `cc -B DIRECTORY -fuse-ld=NAME`, which finds a link of that name to the driver.
#[test]
fn linkers_by_gcc() {
    let what = "cfi2sframe-ld with compilers and linkers";
    if !cfg!(all(target_os = "linux", target_arch = "x86_64"))
        || !is_installed("gcc")
        || !is_installed("readelf")
    {
        return skipped(what, "there are no gcc and readelf for x86-64 Linux");
    }
    let directory = scratch("linker-driver");
    fs::write(directory.join("source.c"), PROGRAM).unwrap();
    for name in ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"] {
        if !is_installed(name) {
            skipped(what, &format!("there is no {name}"));
            continue;
        }
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

/// `clang --ld-path`, and `rustc -C linker` with a compiler driver as the linker.
#[test]
fn compilers_that_take_a_path() {
    let what = "cfi2sframe-ld as --ld-path and -C linker";
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) || !is_installed("readelf") {
        return skipped(what, "there is no readelf for x86-64 Linux");
    }
    let directory = scratch("linker-driver-paths");
    fs::write(directory.join("source.c"), PROGRAM).unwrap();
    let output = directory.join("by-clang");
    if is_installed("clang") && is_installed("ld.lld") {
        let mut clang = Command::new("clang");
        clang.args(["-O2", "source.c", "-o", "by-clang"]).arg(format!("--ld-path={DRIVER}"));
        successful(clang.env("CFI2SFRAME_LD", "ld.lld").current_dir(&directory));
        check_table(&output);
        assert_eq!(successful(&mut Command::new(&output)).stdout, b"41\n");
    } else {
        skipped(what, "there are no clang and lld");
    }

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

/// A script in a linker's place, `script` in a directory `bin` that is alone in `PATH`, and the driver called by its
/// name.
fn driven(
    name: &str,
    script: &str,
    arguments: &[&OsStr],
    variables: &[(&str, &str)],
) -> (Output, std::path::PathBuf) {
    let directory = scratch(name);
    let bin = directory.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("ld.x"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(bin.join("ld.x"), fs::Permissions::from_mode(0o755)).unwrap();
    // It comes first in PATH, as with `gcc -B`, and passes itself over.
    symlink(DRIVER, directory.join("ld.x")).unwrap();
    let path = env::join_paths([&directory, &bin, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
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

    // An output of another run stays: the second call prints a version.
    let script = format!("[ \"$1\" = --version ] || cp {linked} a.out");
    let (_, directory) = driven("linker-driver-stale", &script, &[], &[]);
    let embedded = fs::read(directory.join("a.out")).unwrap();
    assert_ne!(embedded, original);
    fs::write(directory.join("a.out"), &original).unwrap();
    let path = env::join_paths([&directory.join("bin"), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    successful(
        Command::new(directory.join("ld.x")).arg("--version").current_dir(&directory).env("PATH", path),
    );
    assert_eq!(fs::read(directory.join("a.out")).unwrap(), original);

    // What is no ELF file, or not linked, is none of its business.
    let object = linked.replace("linked.so", "linkable.o");
    for (name, script) in [("text", "echo text >a.out".to_owned()), ("object", format!("cp {object} a.out"))]
    {
        let (output, directory) = driven(&format!("linker-driver-{name}"), &script, &[], &[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let left = fs::read(directory.join("a.out")).unwrap();
        assert!(left == b"text\n" || left == fs::read(&object).unwrap());
    }
}

/// A file that cannot take a table stays as the linker wrote it, with a warning; it is an error on request.
#[test]
fn refusals() {
    let linked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/linked.so");
    // Bytes behind the sections, which no editor of ELF files may drop or move.
    let script = format!("cp {} a.out; echo appended >>a.out", linked.display());
    for (required, arguments, code) in [
        ("", &[][..], 0),
        ("0", &[], 0),
        ("1", &[], 1),
        ("", &["--strict"], 1),
        ("0", &["x.o", "--strict"], 1),
    ] {
        let variables = [("CFI2SFRAME_LD_REQUIRED", required)];
        // As linkers do with an option that they do not have.
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

/// A link that has to have a table fails where the linker has written nothing that could have one.
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
            &format!("{linked}; objcopy -g -R .sframe -R .eh_frame -R .bolt.org.eh_frame a.out"),
            &[],
            "a.out: no call frame information",
        ),
    ] {
        if name == "nothing" && !is_installed("objcopy") {
            skipped("a link without call frame information", "there is no objcopy (Debian: binutils)");
            continue;
        }
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

/// In a response file the argument is not the linker's either.
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

/// The driver gives up on response files that `ld` refuses, before it runs the linker, and on no others.
#[test]
fn too_many_response_files() {
    let directory = scratch("linker-driver-response");
    let [itself, empty, many] = ["itself", "empty", "many"].map(|name| directory.join(name));
    let at = |path: &Path| format!("@{} ", path.display());
    fs::write(&itself, at(&itself).repeat(3)).unwrap();
    fs::write(&empty, "").unwrap();
    let linked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/linked.so");
    for (count, file) in [(0, &itself), (1998, &many), (1999, &many)] {
        fs::write(&many, at(&empty).repeat(count)).unwrap();
        let argument = at(file).trim_end().to_owned();
        let is_refused = if is_installed("ld") {
            let ld = Command::new("ld").arg(&argument).output().unwrap();
            String::from_utf8_lossy(&ld.stderr).contains("too many @-files")
        } else {
            skipped("response files as ld counts them", "there is no ld (Debian: binutils)");
            count != 1998
        };
        // A linker that takes as many as it is given.
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
                "{count}: {messages}"
            );
            assert_eq!(output.status.code(), Some(code), "{count}: {messages}");
            let is_unchanged = fs::read(directory.join("a.out")).unwrap() == fs::read(&linked).unwrap();
            assert_eq!(is_unchanged, is_refused, "{count}");
        }
    }
}

/// A copy of the driver, which is no link to it, would call itself for ever.
#[test]
fn copies_of_the_driver() {
    let directory = scratch("linker-driver-copy");
    fs::copy(DRIVER, directory.join("ld.y")).unwrap();
    let mut driver = Command::new(DRIVER);
    driver.env("CFI2SFRAME_LD", directory.join("ld.y")).env("PATH", &directory);
    let output = driver.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(messages.contains("no linker ld.y in PATH"), "{messages}");

    // By its path it is found again and again.
    fs::create_dir(directory.join("other")).unwrap();
    fs::copy(DRIVER, directory.join("other/ld.y")).unwrap();
    let path = env::join_paths([&directory, &directory.join("other")]).unwrap();
    let output = Command::new(directory.join("ld.y")).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(messages.contains("would run itself"), "{messages}");
}
