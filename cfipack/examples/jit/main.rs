//! A JIT with three functions. It registers them with the process's unwinder (libgcc or LLVM's libunwind),
//! HP's libunwind, gdb, perf, and a registry that threads and signal handlers read.
//!
//! ```sh
//! cargo run --example jit
//! gdb -batch -ex "rbreak jit::arrived" -ex run -ex bt target/debug/examples/jit
//! perf record -k mono -e cpu-clock --call-graph dwarf -o perf.data target/debug/examples/jit --perf DIRECTORY
//! perf inject --jit -i perf.data -o perf.jit.data; perf script -i perf.jit.data
//! ```
//!
//! gdb finds `__jit_debug_register_code` by its symbol. The release profile strips the symbol, so gdb prints
//! "No stack". For gdb, build with `cargo build --release --config 'profile.release.strip="debuginfo"'`.
//!
//! The library makes bytes and structures. The unsafe code is here: memory, and calls of the readers'
//! interfaces. For your JIT, copy `memory.rs` and the files of the readers that you want. Linux on x86-64.

#![allow(unsafe_code, reason = "memory that is executed, and interfaces of C")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod code;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod gdb;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod jit;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod libgcc;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod libunwind;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod memory;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod perf;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod sframe;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod walk;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let directory = match arguments.next() {
        Some(option) if option == "--perf" => Some(arguments.next().ok_or("--perf needs a directory")?),
        Some(_) => return Err("usage: jit [--perf DIRECTORY]".into()),
        None => None,
    };
    jit::run(directory.as_deref().map(std::path::Path::new))
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("this example needs Linux on x86-64");
}
