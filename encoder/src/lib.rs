//! Reads DWARF call frame information and packs its rows into the compact unwind tables.
//!
//! `no_std` + `alloc`.

#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod cfi;
pub mod compact_unwind;
pub mod sframe;
mod unsupported;
pub mod unwind_info;

pub use unsupported::{Reason, Unsupported};
