//! The counted jobs, and the files that they work on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a job is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// A process: instructions, memory, page faults.
    All,
    /// A process that would take too long under callgrind: memory and page faults only.
    Memory,
    /// A call of the libraries for librustc_driver. Its instructions are counted, less those of a process that only
    /// prepares it.
    Call,
}

/// A job: its name in the file of figures, and its command.
pub struct Job {
    pub name: &'static str,
    pub measured: Measured,
    pub command: &'static str,
}

const fn process(name: &'static str, command: &'static str) -> Job {
    Job { name, measured: Measured::All, command }
}

const fn call(name: &'static str, command: &'static str) -> Job {
    Job { name, measured: Measured::Call, command }
}

pub const JOBS: [Job; 18] = [
    process("convert librustc_driver, small", "./cfi2sframe driver.so --section out --threads 1"),
    process("convert librustc_driver, gnu", "./cfi2sframe driver.so --section out --threads 1 --layout gnu"),
    Job {
        name: "embed into librustc_driver",
        measured: Measured::Memory,
        command: "./cfi2sframe driver.so -o out.so --threads 1",
    },
    process("embed into libstd", "./cfi2sframe std.so -o out.so --threads 1"),
    process("verify libstd's table", "./cfi2sframe verify std-with-table.so --threads 1"),
    process(
        "merge two tables of libstd's size",
        "./cfi2sframe merge std.sframe std.sframe --address 0x10000000 --address 0x20000000 --section out",
    ),
    process("lint libstd", "./cfi2sframe lint std.so --jobs 1"),
    process("synthesize for libstd", "./cfi2sframe std.so --synthesize --section out --threads 1"),
    process(
        "__unwind_info of an image, small",
        "./cfi2sframe unwind-info image.dylib --layout small --section out",
    ),
    process(
        "__unwind_info of an image, lld",
        "./cfi2sframe unwind-info image.dylib --layout lld --section out",
    ),
    call("gimli walks all rows", "./work gimli driver.so"),
    call("convert, small", "./work small driver.so"),
    call("convert, gnu", "./work gnu driver.so"),
    call("convert, small, function by function", "./work one-by-one driver.so"),
    call("convert, small, general path", "./work general driver.so"),
    call("verify", "./work verify driver.so"),
    call("10 000 lookups", "./work lookup std.so"),
    call("10 000 steps", "./work step std.so"),
];

/// An x86-64 image of the corpora with some 3000 functions. Each has an encoding of its own, or its neighbour's.
const IMAGE: &str = "corpora/compact-unwind/link/la_3_uniq_last_exact.dylib.gz";

/// Copies the inputs into a directory, under names of fixed length. Returns name, size and hash of each.
pub fn prepare(root: &Path, directory: &Path) -> Result<Vec<(String, String)>, String> {
    let sysroot = PathBuf::from(output(Command::new("rustc").args(["--print", "sysroot"]))?.trim());
    let host = host()?;
    copy(&find(&sysroot.join("lib"), "librustc_driver-")?, &directory.join("driver.so"))?;
    let libraries = sysroot.join("lib/rustlib").join(host).join("lib");
    copy(&find(&libraries, "libstd-")?, &directory.join("std.so"))?;
    let image = output_bytes(Command::new("gzip").arg("-dc").arg(root.join(IMAGE)))?;
    fs::write(directory.join("image.dylib"), image).map_err(|error| format!("image.dylib: {error}"))?;
    ["driver.so", "std.so", "image.dylib"].into_iter().map(|name| described(directory, name)).collect()
}

/// Makes the inputs that need the command: a library with a table, and the table alone.
pub fn prepare_tables(directory: &Path) -> Result<(), String> {
    for arguments in [["-o", "std-with-table.so"], ["--section", "std.sframe"]] {
        let mut command = Command::new("./cfi2sframe");
        output_bytes(command.current_dir(directory).arg("std.so").args(arguments).args(["--threads", "1"]))?;
    }
    Ok(())
}

/// The target that rustc runs on.
pub fn host() -> Result<String, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(Into::into).ok_or_else(|| "rustc -vV: no host".into())
}

fn find(directory: &Path, start: &str) -> Result<PathBuf, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
    let mut entries = fs::read_dir(directory).map_err(|error| failed(&error))?.flatten();
    let is_it = |name: &str| name.starts_with(start) && name.ends_with(".so");
    let found = entries.find(|entry| is_it(&entry.file_name().to_string_lossy()));
    found.map(|entry| entry.path()).ok_or_else(|| failed(&format!("no {start}*.so")))
}

pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = fs::copy(from, to);
    copied.map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn described(directory: &Path, name: &str) -> Result<(String, String), String> {
    let path = directory.join(name);
    let size = fs::metadata(&path).map_err(|error| format!("{name}: {error}"))?.len();
    let sum = output(Command::new("sha256sum").arg(&path))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    Ok((format!("input {name}"), format!("{size} bytes, sha256 {}", &sum[..sum.len().min(16)])))
}

/// Runs a command that must succeed. Returns what it prints.
pub fn output(command: &mut Command) -> Result<String, String> {
    output_bytes(command).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn output_bytes(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(output.stdout)
}
