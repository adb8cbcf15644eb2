//! Checks for what ignored tests need besides Rust. A test names it, as in `#[ignore = "needs gdb"]`. If it is missing,
//! the test fails with its name and how to get it.

use std::env;
use std::path::PathBuf;

/// Fails if `PATH` has no program `name`. The Debian package `package` contains it.
pub fn program(name: &str, package: &str) {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|directory| directory.join(name).is_file());
    assert!(is_there, "this test needs {name}, which is not in PATH (Debian: {package})");
}

/// Returns the directory or file that a variable names. Fails if it is not set; `how` says how to get there.
pub fn directory(variable: &str, how: &str) -> PathBuf {
    let Some(value) = env::var_os(variable) else { panic!("this test needs {variable}: {how}") };
    value.into()
}
