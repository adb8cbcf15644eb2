//! The C interface of cfipack: the library `libcfipack` with the header `cfipack.h`.
//!
//! Link the shared or static library and include the header, or `cfipack.hpp` in C++. Each call converts pointers,
//! lengths and numbers to Rust types, calls another crate of this workspace, and converts the result back. Rust
//! programs use the crate `cfipack` instead.
//!
//! # Rules
//! - Functions are named `cfipack_...`, return a [`cfipack_status`] and write results through pointers.
//! - Functions that read ([`sframe`], [`unwind_info`], [`step`], [`walk`], and lookups in a registry) are
//!   async-signal-safe: they do not allocate, lock, or use floating point or thread-local variables. Tables are
//!   parsed into memory of the caller.
//! - Functions that write use handles, which this crate allocates and frees. Only one thread at a time uses a handle.
//! - Options are structures that start with their size. If a structure is larger than this library's version, the
//!   additional bytes must be zero.
//! - No panic reaches the caller: the call returns [`cfipack_status::Internal`] instead.
//!
//! # Modules
//! - Read: `sframe`, `sframe_index`, `unwind_info`, `row`, `step` (one frame), `walk` (a whole stack, with `modules`,
//!   `walk_cache`, `walk_end`).
//! - Profile this process: `process_modules`.
//! - Link ELF: `merger` takes an `object` and `stubs`, and returns a `section`.
//! - Link Mach-O: `unwind_builder`, `unwind_section`.
//! - Convert and check a file: `cfi_section`, `convert`, `verify`.
//! - Generated code: `directives`, `region`, `registry`, `jitdump`, `libunwind_table`.
//! - Shared by all modules: `arguments`, `in_place`, `handle`, `status`, `sized_options`, `options`, `pool`.

#![cfg_attr(all(not(feature = "write"), not(test), panic = "abort"), no_std)]

mod arguments;
mod in_place;
mod modules;
mod row;
pub mod sframe;
mod sframe_index;
mod sized_options;
mod status;
pub mod step;
pub mod unwind_info;
pub mod walk;
mod walk_cache;
mod walk_end;

#[cfg(feature = "write")]
mod cfi_section;
#[cfg(feature = "write")]
mod convert;
#[cfg(feature = "write")]
mod directives;
#[cfg(feature = "write")]
mod handle;
#[cfg(feature = "write")]
mod jitdump;
#[cfg(feature = "write")]
mod libunwind_table;
#[cfg(feature = "write")]
mod merger;
#[cfg(feature = "write")]
mod object;
#[cfg(feature = "write")]
mod options;
#[cfg(feature = "write")]
mod pool;
#[cfg(all(
    feature = "write",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "s390x")
))]
mod process_modules;
#[cfg(feature = "write")]
mod region;
#[cfg(feature = "write")]
mod registry;
#[cfg(feature = "write")]
mod section;
#[cfg(feature = "write")]
mod stubs;
#[cfg(feature = "write")]
mod unwind_builder;
#[cfg(feature = "write")]
mod unwind_section;
#[cfg(feature = "verify")]
mod verify;

pub use arguments::*;
pub use modules::*;
#[cfg(all(
    feature = "write",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "s390x")
))]
pub use process_modules::*;
pub use row::*;
pub use sframe::*;
pub use sframe_index::*;
pub use status::*;
pub use step::*;
pub use unwind_info::*;
#[cfg(feature = "verify")]
pub use verify::*;
pub use walk::*;
pub use walk_cache::*;
pub use walk_end::*;
#[cfg(feature = "write")]
pub use {
    cfi_section::*, convert::*, directives::*, jitdump::*, libunwind_table::*, merger::*, object::*,
    options::*, pool::*, region::*, registry::*, section::*, stubs::*, unwind_builder::*, unwind_section::*,
};

/// Returns the version of the library, for example `0.1.0`. The string is static.
#[unsafe(no_mangle)]
pub extern "C" fn cfipack_version() -> *const core::ffi::c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A library built without the feature `write` cannot catch a panic, which would be a defect, so it ends the process.
#[cfg(all(not(feature = "write"), not(test), panic = "abort"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn abort() -> !;
    }
    // SAFETY: C's abort has no conditions.
    unsafe { abort() }
}
