//! The C interface of cfipack, `libcfipack`; `cfipack.h` describes it.
//!
//! You link the shared or static library and include the header, or `cfipack.hpp` in C++. What a call does is done by the
//! crates below, and nowhere here: these files turn pointers, lengths and numbers into their types, and results
//! back. Rust programs use the crate `cfipack` instead.
//!
//! # Rules
//! - Every function is named `cfipack_...`, returns a [`cfipack_status`] and writes results through pointers.
//! - Reading ([`sframe`], [`unwind_info`], [`step`], [`walk`], and lookups in a registry) is async-signal-safe: it neither
//!   allocates nor locks nor uses floating
//!   point or variables of threads. Tables are parsed into memory of the caller.
//! - Writing has handles, which are allocated and freed here. A handle is used by one thread at a time.
//! - Options are structures that start with their size. A structure that is larger than the library's is refused
//!   if what it has more is not zero.
//! - No panic passes to the caller: a call returns [`cfipack_status::Internal`] then.

#![cfg_attr(all(not(feature = "write"), not(test), panic = "abort"), no_std)]

mod arguments;
mod in_place;
mod row;
pub mod sframe;
mod sframe_index;
mod sized_options;
mod status;
pub mod step;
pub mod unwind_info;
pub mod walk;

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
pub use row::*;
pub use sframe::*;
pub use sframe_index::*;
pub use status::*;
pub use step::*;
pub use unwind_info::*;
#[cfg(feature = "verify")]
pub use verify::*;
pub use walk::*;
#[cfg(feature = "write")]
pub use {
    cfi_section::*, convert::*, directives::*, jitdump::*, libunwind_table::*, merger::*, object::*,
    options::*, pool::*, region::*, registry::*, section::*, stubs::*, unwind_builder::*, unwind_section::*,
};

/// The version of the library, such as `0.1.0`. Static.
#[unsafe(no_mangle)]
pub extern "C" fn cfipack_version() -> *const core::ffi::c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A panic of the reader alone would be a defect: it ends the process.
#[cfg(all(not(feature = "write"), not(test), panic = "abort"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn abort() -> !;
    }
    // SAFETY: C's abort has no conditions.
    unsafe { abort() }
}
