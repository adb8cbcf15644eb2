//! Compiles C and C++ programs with the machine's compilers, links them with both libraries, and runs them.
//!
//! Tests that compile C or C++ are ignored by default.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "verify"))]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cfipack_testkit::needs;

/// The libraries that a program with the static library needs.
const SYSTEM: [&str; 3] = ["-lm", "-lpthread", "-ldl"];

/// Compiler warnings. All of them are errors.
const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the directory where cargo has put the libraries of this test.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

fn static_library() -> PathBuf {
    libraries().join("libcfipack_capi.a")
}

/// Creates a separate directory for each test.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capi-{name}"));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Fails if one of the programs is missing.
fn need(programs: &[&str]) {
    for program in programs {
        let package = match *program {
            "clang++" => "clang",
            other => other,
        };
        needs::program(program, package);
    }
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// Compiles sources into a program.
fn compile(compiler: &str, options: &[&str], sources: &[&str], program: &Path, library: &[&OsStr]) {
    let mut command = Command::new(compiler);
    command.args(options).args(WARNINGS).args(["-O1", "-g"]);
    for include in ["include", "examples"] {
        command.arg("-I").arg(source(include));
    }
    command.args(sources.iter().map(|name| source(name)));
    run(command.arg("-o").arg(program).args(library).args(SYSTEM));
}

/// Runs a program under valgrind, and expects neither leaks nor reads of undefined memory.
fn under_valgrind(program: &Path) {
    let mut command = Command::new("valgrind");
    command.args(["-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=9"]);
    run(command.arg(program));
}

fn with_static(library: &Path) -> [&OsStr; 1] {
    [library.as_os_str()]
}

const C: [&str; 2] = ["gcc", "clang"];
const CXX: [&str; 2] = ["g++", "clang++"];

#[test]
#[ignore = "needs gcc and clang"]
fn sizes_and_offsets_stay() {
    need(&C);
    for compiler in C {
        for standard in ["-std=c99", "-std=c17"] {
            let mut command = Command::new(compiler);
            command.arg(standard).args(WARNINGS).arg("-I").arg(source("include"));
            run(command.arg("-fsyntax-only").arg(source("tests/c/abi.c")));
        }
    }
}

/// Builds the program that passes hostile arguments.
fn hostile(compiler: &str, program: &Path, sanitizer: &[&str]) {
    let options = ["-std=c99", "-Wno-stringop-overflow", "-Wno-unknown-warning-option"];
    let options = [&options[..], sanitizer].concat();
    compile(compiler, &options, &["tests/c/hostile.c"], program, &with_static(&static_library()));
}

#[test]
#[ignore = "needs gcc, clang and valgrind"]
fn hostile_arguments_are_refused() {
    let directory = directory("hostile");
    need(&[&C[..], &["valgrind"]].concat());
    for compiler in C {
        let program = directory.join(format!("hostile-{compiler}"));
        hostile(compiler, &program, &[]);
        run(&mut Command::new(&program));
        if compiler == C[0] {
            under_valgrind(&program);
        }
    }
}

/// Only gcc's sanitizer is used, because clang's runtime is in another package.
#[test]
#[ignore = "needs gcc"]
fn hostile_arguments_are_refused_with_the_address_sanitizer() {
    need(&C[..1]);
    let program = directory("hostile").join("hostile-asan");
    hostile(C[0], &program, &["-fsanitize=address"]);
    run(&mut Command::new(&program));
}

/// A program makes tables as a linker does, reads them back, and compares them with the formats' documents.
#[test]
#[ignore = "needs gcc, clang and valgrind"]
fn tables_have_what_was_given() {
    let directory = directory("tables");
    need(&[&C[..], &["valgrind"]].concat());
    for compiler in C {
        let program = directory.join(compiler);
        compile(compiler, &["-std=c99"], &["tests/c/tables.c"], &program, &with_static(&static_library()));
        run(&mut Command::new(&program));
        if compiler == C[0] {
            under_valgrind(&program);
        }
    }
}

/// The sections of a program's loaded files end where the program's own unwinder ends them.
#[test]
#[ignore = "needs a C compiler"]
fn sections_in_memory_end_at_their_zero() {
    let (directory, library) = (directory("in-memory"), static_library());
    let program = directory.join("program");
    compile(C[0], &["-std=c99"], &["tests/c/in_memory.c"], &program, &with_static(&library));
    run(&mut Command::new(&program));
}

/// Programs use pools of their own threads, and pools that do not run the tasks as asked.
#[test]
#[ignore = "needs g++, clang and valgrind"]
fn pools_do_not_change_bytes() {
    let (directory, library) = (directory("pools"), static_library());
    let c = C.map(|compiler| (compiler, "-std=c99", "tests/c/pool.c"));
    let cpp = CXX.map(|compiler| (compiler, "-std=c++17", "tests/c/pool.cpp"));
    need(&[&C[..], &CXX, &["valgrind"]].concat());
    for (compiler, standard, source) in c.into_iter().chain(cpp) {
        let program = directory.join(compiler);
        compile(compiler, &[standard], &[source], &program, &with_static(&library));
        run(&mut Command::new(&program));
        if [C[0], CXX[0]].contains(&compiler) {
            under_valgrind(&program);
        }
    }
}

#[test]
#[ignore = "needs gcc and clang"]
fn the_cpp_header_does_without_exceptions() {
    let throw = "-DCFIPACK_THROW(status, message)=(__builtin_printf(\"%s\", message), __builtin_abort())";
    need(&CXX);
    for compiler in CXX {
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-fno-exceptions", "-fno-rtti", throw]).args(WARNINGS);
        command.arg("-I").arg(source("include")).args([
            "-fsyntax-only",
            "-include",
            "cfipack.hpp",
            "-x",
            "c++",
        ]);
        run(command.arg("/dev/null"));
    }
}

#[test]
#[ignore = "needs g++, clang and valgrind"]
fn the_linker_in_cpp_links() {
    let (directory, library) = (directory("linker"), static_library());
    let mut printed = Vec::new();
    need(&[&CXX[..], &["valgrind"]].concat());
    for compiler in CXX {
        let program = directory.join(compiler);
        compile(compiler, &["-std=c++17"], &["examples/linker.cpp"], &program, &with_static(&library));
        printed.push(run(&mut Command::new(&program)).stdout);
        if compiler == CXX[0] {
            under_valgrind(&program);
        }
        // The rpath finds the shared library of this build, and not an older library of cargo.
        let program = directory.join(format!("{compiler}-shared"));
        let path = format!("-Wl,-rpath,{}", libraries().display());
        let search = format!("-L{}", libraries().display());
        let shared = [path.as_ref(), search.as_ref(), "-lcfipack_capi".as_ref()];
        compile(compiler, &["-std=c++17"], &["examples/linker.cpp"], &program, &shared);
        printed.push(run(Command::new(&program).env_remove("LD_LIBRARY_PATH")).stdout);
    }
    assert!(printed.windows(2).all(|pair| pair[0] == pair[1]));
    let text = String::from_utf8_lossy(&printed[0]);
    assert!(text.contains("Num FDEs: 6") && text.contains("0000000000007014  sp+32"), "{text}");
}

#[test]
#[ignore = "needs gcc and clang"]
fn a_program_profiles_itself() {
    let (directory, library) = (directory("profiler"), static_library());
    need(&C);
    for compiler in C {
        let program = directory.join(compiler);
        let sources = ["examples/profile_self.c", "examples/profiler.c"];
        compile(compiler, &["-std=c99"], &sources, &program, &with_static(&library));
        let output = run(Command::new(&program).arg("300"));
        let text = String::from_utf8_lossy(&output.stdout);
        // A few frames need a register that no table restores.
        let outermost = text.lines().find_map(|line| line.strip_prefix("outermost: ")?.parse::<u32>().ok());
        assert!(text.contains("300 samples") && outermost.is_some_and(|count| count >= 297), "{text}");
    }
}

/// In a child after fork some lookups never end, and no change of the registry waits for them.
#[test]
#[ignore = "needs gcc"]
fn no_change_of_a_registry_waits_for_a_lookup() {
    let (directory, library) = (directory("fork"), static_library());
    need(&C[..1]);
    let program = directory.join("fork");
    compile(C[0], &["-std=c99"], &["tests/c/fork.c"], &program, &with_static(&library));
    let output = run(Command::new(&program).arg("20"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("forks 60, wrong 0"));
}

/// Many threads come and go, and later threads still get their samples.
#[test]
#[ignore = "needs gcc and clang"]
fn threads_that_end_leave_room_for_others() {
    let (directory, library) = (directory("threads"), static_library());
    need(&C);
    for compiler in C {
        let program = directory.join(compiler);
        let sources = ["tests/c/threads.c", "examples/profiler.c"];
        compile(
            compiler,
            &["-std=c99", "-fno-stack-clash-protection"],
            &sources,
            &program,
            &with_static(&library),
        );
        let output = run(&mut Command::new(&program));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("threads 300 failed 0"), "{text}");
    }
}

/// Code beside the program's entry is not taken for the entry, whether it has CFI or not. gcc keeps the order of the source.
#[test]
#[ignore = "needs gcc"]
fn walks_go_through_functions_beside_the_entry() {
    let (directory, library) = (directory("entry"), static_library());
    need(&C[..1]);
    let entry = ["-nostartfiles", "-no-pie", "-fno-toplevel-reorder", "-Wl,-e,program_entry"];
    let sources = ["tests/c/entry.c", "examples/profiler.c"];
    for defines in [["-DTHROUGH=0", "-DEARLY=0"], ["-DTHROUGH=0", "-DEARLY=1"], ["-DTHROUGH=1", "-DEARLY=0"]]
    {
        let program = directory.join(&defines.concat()[2..]);
        let options = [&["-std=c99"], &defines[..], &entry[..]].concat();
        compile(C[0], &options, &sources, &program, &with_static(&library));
        // Without variables, the kernel's array is close to the stack's start.
        run(Command::new(&program).env_clear());
        run(&mut Command::new(&program));
        // The loader runs as a command, and gives the program a stack of its own place.
        run(Command::new("/lib64/ld-linux-x86-64.so.2").arg(&program));
    }
}

/// Walks go through generated code with a registry's rows, and say that they cannot without.
#[test]
#[ignore = "needs gcc and clang"]
fn walks_go_through_generated_code() {
    let (directory, library) = (directory("generated"), static_library());
    need(&C);
    for compiler in C {
        let program = directory.join(compiler);
        compile(compiler, &["-std=c99"], &["tests/c/generated.c"], &program, &with_static(&library));
        run(&mut Command::new(&program));
    }
}

/// Walks find the return addresses that the compilers know, also through code without tables.
#[test]
#[ignore = "needs gcc and clang"]
fn code_without_tables_is_left_by_frame_pointers() {
    let (directory, library) = (directory("no-tables"), static_library());
    need(&C);
    for compiler in C {
        for level in ["-O1", "-O2"] {
            let bare = directory.join(format!("bare-{compiler}.o"));
            let mut command = Command::new(compiler);
            command.args([level, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]);
            command.args(["-fno-omit-frame-pointer", "-c", "-o"]).arg(&bare).arg(source("tests/c/bare.c"));
            run(&mut command);
            let program = directory.join(compiler);
            let sources = ["tests/c/no_tables.c", "examples/profiler.c"];
            let linked = [bare.as_os_str(), library.as_os_str()];
            compile(compiler, &["-std=c99"], &sources, &program, &linked);
            let output = run(&mut Command::new(&program));
            assert!(String::from_utf8_lossy(&output.stdout).contains("wrong 0"));
        }
    }
}

/// Files come and go while threads are sampled. Each pair of files has the same addresses and other rows.
#[test]
#[ignore = "needs gcc and clang"]
fn walks_know_the_files_that_are_loaded() {
    let (directory, library) = (directory("loaded"), static_library());
    need(&C);
    for compiler in C {
        let program = directory.join(compiler);
        let sources = ["tests/c/loaded.c", "examples/profiler.c"];
        compile(compiler, &["-std=c99", "-Wno-pedantic"], &sources, &program, &with_static(&library));
        let mut command = Command::new(&program);
        command.arg("200");
        for words in ["-DWORDS=8", "-DWORDS=24"] {
            let file = directory.join(format!("{compiler}{words}.so"));
            let options = ["-shared", "-fPIC", "-O1", words, "-o"];
            run(Command::new(compiler).args(options).arg(&file).arg(source("tests/c/plugin.c")));
            command.arg(file);
        }
        let output = run(&mut command);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("rounds 200 at the same place 199") && text.contains("silent 0"), "{text}");
    }
}

/// Every walk in the handler agrees with HP's libunwind. An allocator aborts if the handler calls it.
#[test]
#[ignore = "needs gcc and HP's libunwind"]
fn walks_in_a_signal_handler_equal_libunwinds() {
    const NO_LIBUNWIND: i32 = 77;
    need(&["gcc"]);
    let (directory, library) = (directory("walks"), static_library());
    let allocator = directory.join("liballocator.so");
    let mut command = Command::new("gcc");
    run(command
        .args(["-shared", "-fPIC", "-O1"])
        .arg(source("tests/c/allocator.c"))
        .arg("-o")
        .arg(&allocator));
    let program = directory.join("check");
    let sources = ["tests/c/profiler_check.c", "examples/profiler.c"];
    compile("gcc", &["-std=gnu99", "-Wno-pedantic"], &sources, &program, &with_static(&library));
    let output = Command::new(&program).arg("3000").env("LD_PRELOAD", &allocator).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_ne!(
        output.status.code(),
        Some(NO_LIBUNWIND),
        "this test needs libunwind.so.8 (Debian: libunwind8)"
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("differ 0"), "{}\n{text}{errors}", output.status);
}

#[test]
fn nothing_else_is_exported() {
    use object::{Object as _, ObjectSymbol as _};

    let bytes = std::fs::read(libraries().join("libcfipack_capi.so")).unwrap();
    let library = object::File::parse(&*bytes).unwrap();
    let defined = library.dynamic_symbols().filter(|symbol| !symbol.is_undefined());
    let symbols: Vec<_> = defined.map(|symbol| symbol.name().unwrap()).collect();
    assert!(symbols.contains(&"cfipack_sframe_parse"));
    assert_eq!(symbols.iter().find(|symbol| !symbol.starts_with("cfipack_")), None);
    // Each exported function is in the header.
    let header = std::fs::read_to_string(source("include/cfipack.h")).unwrap();
    let missing = symbols.iter().find(|symbol| !header.contains(&format!("{symbol}(")));
    assert_eq!(missing, None, "in the library, not in the header");
    let declared = header.match_indices(" cfipack_").filter_map(|(at, _)| {
        let name = header[at + 1..].split_once('(')?.0;
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(name)
    });
    for name in declared {
        assert!(symbols.contains(&name), "{name} is in the header, not in the library");
    }
}

/// A program may link two static libraries of Rust. Each of them has its own copy of std.
#[test]
#[ignore = "needs gcc"]
fn another_static_rust_library_may_be_linked_too() {
    need(&["gcc"]);
    let (directory, library) = (directory("two"), static_library());
    let other = directory.join("libother.a");
    std::fs::write(
        directory.join("other.rs"),
        "#[unsafe(no_mangle)] pub extern \"C\" fn other() -> u32 {\n\
         \x20   let caught = std::panic::catch_unwind(|| panic!(\"caught\"));\n\
         \x20   format!(\"{:?}\", vec![caught.is_err()]).len() as u32\n}\n",
    )
    .unwrap();
    let mut command = Command::new("rustc");
    command.args(["--edition=2024", "--crate-type=staticlib", "-O", "-o"]).arg(&other);
    run(command.arg(directory.join("other.rs")));
    let text = "#include \"cfipack.h\"\n#include <stdio.h>\nunsigned other(void);\n\
                int main(void) { printf(\"%s %u\\n\", cfipack_version(), other()); return 0; }\n";
    std::fs::write(directory.join("two.c"), text).unwrap();
    for order in [[&library, &other], [&other, &library]] {
        let program = directory.join("two");
        let mut command = Command::new("gcc");
        command.arg("-I").arg(source("include")).arg(directory.join("two.c")).args(order).args(SYSTEM);
        run(command.arg("-o").arg(&program));
        let output = run(&mut Command::new(&program));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{} 6\n", env!("CARGO_PKG_VERSION")));
    }
}
