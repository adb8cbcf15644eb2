//! Finds real binaries on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Returns a shared library of the Rust toolchain, by the start of its file name.
pub fn toolchain_library(prefix: &str) -> Option<PathBuf> {
    let library = sysroot()?.join("lib");
    find(&library, prefix).or_else(|| {
        let nested = library.join("rustlib").join(format!("{}-unknown-linux-gnu", env::consts::ARCH));
        find(&nested.join("lib"), prefix)
    })
}

/// Returns a static library of the Rust toolchain for this machine, by the start of its file name. Panics without it.
pub fn toolchain_archive(prefix: &str) -> PathBuf {
    let target = format!("lib/rustlib/{}-unknown-linux-gnu/lib", env::consts::ARCH);
    let directory = sysroot().expect("rustc runs").join(target);
    let entries = fs::read_dir(&directory).expect("a toolchain for this machine");
    let mut paths = entries.map(|entry| entry.expect("a file").path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(prefix) && name.ends_with(".rlib")
    };
    paths.find(is_it).unwrap_or_else(|| panic!("{}: no {prefix}*.rlib", directory.display()))
}

/// Returns a program of the Rust toolchain, not the rustup proxy of that name.
pub fn toolchain_program(name: &str) -> Option<PathBuf> {
    Some(sysroot()?.join("bin").join(name))
}

/// Returns a program of the system's C++ compiler.
pub fn compiler_program(name: &str) -> Option<PathBuf> {
    printed(Command::new("g++").arg(format!("-print-prog-name={name}")))
}

fn sysroot() -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    printed(Command::new(rustc).args(["--print", "sysroot"]))
}

/// Returns the path that a command prints.
fn printed(command: &mut Command) -> Option<PathBuf> {
    let output = command.output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().into())
}

/// Returns a library of the system, by its file name.
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
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && name.contains(".so")
        })
        .collect();
    // libLLVM.so may be a linker script beside the library, so we take the largest file.
    found.sort_by_key(|path| fs::metadata(path).map_or(0, |metadata| metadata.len()));
    found.pop()
}
