//! Reads DWARF call frame information and packs its rows into the compact unwind tables.
//!
//! `no_std` + `alloc`.

#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod cfi;
pub mod sframe;
pub mod unwind_info;
mod unsupported;

pub use unsupported::{Reason, Unsupported};
