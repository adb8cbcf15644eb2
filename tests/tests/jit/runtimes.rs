//! Tests unwinders in the process: libgcc, LLVM's libunwind and HP's libunwind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use cfipack_testkit::needs;
use cfipack_tests::reference;

use super::child::{command, lines, prepare};

/// Runs a case, which must succeed. Returns its lines.
fn run(mut command: Command) -> Vec<String> {
    let output = command.output().expect("a child");
    assert!(output.status.success(), "{command:?}: {output:?}");
    lines(&output)
}

fn output(case: &str) -> Output {
    command(case).output().expect("a child")
}

const WHOLE: &str = "inner middle outer caller all";

/// Walks from a call with right, wrong and no CFI, and after its removal.
fn calls(run_case: impl Fn(&str) -> Vec<String>) {
    assert_eq!(run_case("right call"), [WHOLE]);
    assert_eq!(run_case("wrong call"), ["inner middle cut"]);
    for broken in ["none call", "right removed"] {
        let lines = run_case(broken);
        // LLVM's libunwind does not report a frame that it cannot leave.
        assert!(["inner cut", "cut"].contains(&&lines[0][..]) && lines.len() == 1, "{broken}: {lines:?}");
    }
}

/// Walks from every instruction. With right CFI, `count` walks must succeed.
fn steps(count: usize, run_case: impl Fn(&str) -> Output) {
    let succeeded = |cfi: &str| {
        let output = run_case(&format!("{cfi} step"));
        output.status.success().then(|| lines(&output))
    };
    assert_eq!(succeeded("right"), Some(vec![format!("{count} steps, 0 failures")]));
    // With wrong CFI an unwinder may crash: it may take a handler's data on the stack for code.
    let wrong = succeeded("wrong");
    assert!(wrong.as_ref().is_none_or(|lines| lines.len() > 1 + count / 4), "{wrong:?}");
}

/// The number of instructions in the program.
const STEPS: usize = 23;

#[test]
fn libgcc_walks() {
    let case = |case: &str| run(command(&format!("libgcc {case}")));
    calls(case);
    steps(STEPS, |case| output(&format!("libgcc {case}")));
    assert_eq!(case("right reused"), [WHOLE; 2]);
    assert_eq!(run(command("libgcc-relative right call")), [WHOLE]);
    steps(STEPS, |case| output(&format!("libgcc-relative {case}")));
}

#[test]
fn libgcc_throws() {
    assert_eq!(run(command("libgcc right panic")), ["caught"]);
    for broken in ["libgcc wrong panic", "libgcc none panic"] {
        let output = command(broken).output().unwrap();
        assert!(!output.status.success(), "{broken}: {output:?}");
    }
}

#[test]
#[ignore = "needs g++"]
fn libgcc_throws_of_cpp() {
    needs::program("c++", "g++");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (directory.join("jit-throw.cc"), directory.join("jit-throw.so"));
    let text = r#"
        typedef void (*innermost)(void *);
        extern "C" void throw_it(void *) { throw 42; }
        extern "C" int catch_it(void (*code)(innermost, void *), innermost callback) {
            try { code(callback, nullptr); } catch (int thrown) { return thrown; }
            return 0;
        }
    "#;
    fs::write(&source, text).unwrap();
    let compiled =
        Command::new("c++").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output();
    assert!(compiled.is_ok_and(|output| output.status.success()), "a C++ compiler");
    let case = |cfi: &str| format!("libgcc {cfi} exception {}", library.display());
    assert_eq!(run(command(&case("right"))), ["caught 42"]);
    for broken in ["wrong", "none"] {
        let output = command(&case(broken)).output().unwrap();
        assert!(!output.status.success(), "{broken}: {output:?}");
    }
}

/// Tests the newest libgcc, which reads a section when it is registered instead of at the first walk.
#[test]
#[ignore = "needs the reference tools"]
fn newest_libgcc() {
    let root = reference::trees().join("sid");
    let (loader, libraries) =
        (root.join("lib64/ld-linux-x86-64.so.2"), root.join("usr/lib/x86_64-linux-gnu"));
    assert!(loader.exists() && libraries.join("libgcc_s.so.1").exists(), "{root:?}");
    let output = |case: &str| -> Output {
        let mut command = Command::new(&loader);
        command.arg("--library-path").arg(&libraries).arg(env::current_exe().unwrap());
        prepare(&mut command, &format!("libgcc {case}"));
        command.output().expect("a child")
    };
    let case = |case: &str| {
        let output = output(case);
        assert!(output.status.success(), "{case}: {output:?}");
        lines(&output)
    };
    calls(case);
    steps(STEPS, output);
    assert_eq!(case("right reused"), [WHOLE; 2]);
    assert_eq!(case("right panic"), ["caught"]);
    assert!(!output("wrong panic").status.success());
    assert!(!output("none panic").status.success());
    assert_eq!(case("right stress"), ["no short walk"]);
}

/// Returns the installed LLVM libunwinds, and those of packages that exclude each other, which `apt-get` downloads.
fn llvm_libunwinds() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for version in 13..30 {
        let installed = PathBuf::from(format!("/usr/lib/llvm-{version}/lib/libunwind.so.1"));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libunwind-{version}"));
        let library = directory.join(installed.strip_prefix("/").unwrap());
        if installed.exists() {
            found.push(installed);
        } else if library.exists() || unpacked(version, &directory) && library.exists() {
            found.push(library);
        }
    }
    found
}

/// Downloads and unpacks a package, without installing it.
fn unpacked(version: u32, directory: &Path) -> bool {
    if ![14, 16, 19].contains(&version) || env::var_os("CFIPACK_JIT_DOWNLOADS").is_none() {
        return false;
    }
    fs::create_dir_all(directory).unwrap();
    let package = format!("libunwind-{version}");
    let script = format!("apt-get download -q {package} && dpkg-deb -x {package}_*.deb .");
    let downloaded = Command::new("sh").args(["-c", &script]).current_dir(directory).output();
    downloaded.is_ok_and(|output| output.status.success())
}

#[test]
#[ignore = "needs LLVM's libunwind"]
fn llvm_libunwind() {
    let libraries = llvm_libunwinds();
    assert!(!libraries.is_empty(), "this test needs LLVM's libunwind (Debian: libunwind-14, -16 or -19)");
    for library in libraries {
        let case = |case: &str| run(command(&format!("llvm {case} {}", library.display())));
        calls(case);
        let section = run(command(&format!("llvm-section right call {}", library.display())));
        assert_eq!(section, [WHOLE]);
        // LLVM's libunwind passes the instructions at which no row starts.
        steps(8, |case| output(&format!("llvm {case} {}", library.display())));
        assert_eq!(case("right reused"), [WHOLE; 2]);
    }
}

#[test]
#[ignore = "needs HP's libunwind"]
fn hp_libunwind() {
    let candidates = ["/usr/lib/x86_64-linux-gnu/libunwind.so.8", "/usr/lib64/libunwind.so.8"];
    let library = candidates.iter().find(|path| Path::new(path).exists());
    let library = library.expect("this test needs libunwind.so.8 (Debian: libunwind8)");
    for form in ["ip-offset", "remote-table"] {
        let case = |case: &str| run(command(&format!("{form} {case} {library}")));
        calls(case);
        steps(STEPS, |case| output(&format!("{form} {case} {library}")));
        assert_eq!(case("right reused"), [WHOLE; 2]);
    }
}
