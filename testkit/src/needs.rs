//! What ignored tests need beside Rust. A test names it in its attribute (`#[ignore = "needs gdb"]`), and fails with the
//! name and the way to get it where the machine has it not.

use std::env;
use std::path::PathBuf;

/// Fails if `PATH` has no program of this name, which the Debian package `package` contains.
pub fn program(name: &str, package: &str) {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|directory| directory.join(name).is_file());
    assert!(is_there, "this test needs {name}, which is not in PATH (Debian: {package})");
}

/// The directory or file that a variable names. Fails if the variable is not set; `how` is the way to get there.
pub fn directory(variable: &str, how: &str) -> PathBuf {
    let Some(value) = env::var_os(variable) else { panic!("this test needs {variable}: {how}") };
    value.into()
}
