//! Makes objects, programs and libraries with rustc and its linker. Tests that use them need no other compiler and no
//! assembler.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A program that prints its first argument and returns the number of its arguments. It has a recursive function of its
/// own, depends on the C library alone, and has CFI.
const PROGRAM: &str = r#"
#![no_std]
#![no_main]

#[link(name = "c")]
unsafe extern "C" {
    fn printf(format: *const u8, ...) -> i32;
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn depth(n: i32) -> i32 {
    unsafe { printf(b"\0".as_ptr()) };
    if n == 0 { 0 } else { depth(n - 1) + 1 }
}

#[unsafe(no_mangle)]
extern "C" fn main(count: i32, words: *const *const u8) -> i32 {
    let word = if count > 1 { unsafe { *words.add(1) } } else { b"none\0".as_ptr() };
    unsafe { printf(b"%s %d\n\0".as_ptr(), word, depth(count)) };
    count
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

/// Runs rustc in a directory. It must succeed.
pub fn rustc<S: AsRef<OsStr>>(directory: &Path, arguments: &[S]) {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition=2024", "-Copt-level=1", "-Cpanic=abort", "-Cforce-unwind-tables=yes"]);
    rustc.args(["-Ccodegen-units=1", "--cap-lints=allow"]).args(arguments).current_dir(directory);
    let output = rustc.output().expect("rustc starts");
    assert!(output.status.success(), "{rustc:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Writes `program`, `library.so` and `object.o` of one source into a directory.
pub fn program_library_object(directory: &Path) {
    program(directory, &[]);
    rustc(directory, &["program.rs", "--crate-type=cdylib", "-o", "library.so"]);
    rustc(directory, &["program.rs", "--crate-type=lib", "--emit=obj", "-o", "object.o"]);
    fs::remove_file(directory.join("program.rs")).unwrap();
}

/// Writes `program` and its source `program.rs` into a directory. `options` are for rustc.
pub fn program(directory: &Path, options: &[&str]) {
    fs::write(directory.join("program.rs"), PROGRAM).unwrap();
    rustc(directory, &[&["program.rs", "-o", "program"], options].concat());
}

/// Assembles a text in GNU syntax for this machine's architecture. Returns the object's path.
pub fn assemble(directory: &Path, text: &str, object: &str) -> PathBuf {
    let source = directory.join("assembled.rs");
    let syntax = if cfg!(target_arch = "x86_64") { "att_syntax, raw" } else { "raw" };
    let module = format!("#![no_std]\ncore::arch::global_asm!({text:?}, options({syntax}));\n");
    fs::write(&source, module).unwrap();
    rustc(directory, &["assembled.rs", "--crate-type=lib", "--emit=obj", "-o", object]);
    fs::remove_file(source).unwrap();
    directory.join(object)
}
