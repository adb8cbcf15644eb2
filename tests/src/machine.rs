//! Real binaries that this machine has.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The libraries of the Rust toolchain, by the start of their file name.
pub fn toolchain_library(prefix: &str) -> Option<PathBuf> {
    let library = sysroot()?.join("lib");
    find(&library, prefix).or_else(|| {
        let nested = library.join("rustlib").join(format!("{}-unknown-linux-gnu", env::consts::ARCH));
        find(&nested.join("lib"), prefix)
    })
}

/// A program of the Rust toolchain: itself, and not what rustup runs by its name.
pub fn toolchain_program(name: &str) -> Option<PathBuf> {
    Some(sysroot()?.join("bin").join(name))
}

/// A program of the system's C++ compiler.
pub fn compiler_program(name: &str) -> Option<PathBuf> {
    printed(Command::new("g++").arg(format!("-print-prog-name={name}")))
}

fn sysroot() -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    printed(Command::new(rustc).args(["--print", "sysroot"]))
}

/// The path that a command prints.
fn printed(command: &mut Command) -> Option<PathBuf> {
    let output = command.output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().into())
}

/// A library of the system, by its file name.
pub fn system_library(name: &str) -> Option<PathBuf> {
    let directories = [
        format!("/lib/{}-linux-gnu", env::consts::ARCH),
        format!("/usr/lib/{}-linux-gnu", env::consts::ARCH),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/lib".into(),
    ];
    directories.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists())
}

fn find(directory: &Path, prefix: &str) -> Option<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    // The largest: libLLVM.so may be a linker script beside the library.
    found.sort_by_key(|path| fs::metadata(path).map_or(0, |metadata| metadata.len()));
    found.pop()
}
