//! Compact unwind: 32-bit [encodings](Encoding) that describe how to unwind a whole function, and the section
//! `__LD,__compact_unwind` that passes encodings from an assembler to a linker.
//!
//! The section is an array of [rows](Entry) in any order. Each row describes a function or a part of a
//! function, and has relocations for its three pointers. A linker turns the section into `__TEXT,__unwind_info`
//! ([`crate::unwind_info`]) and drops it. Everything is little endian.
//!
//! - [`Encoding`] packs and unpacks an encoding, with its [`Mode`] and [`Flags`].
//! - [`encode_order`] and [`decode_order`] convert the order of saved registers in x86's frameless modes.
//! - [`callee_saved`] and [`PAIRS`] are the registers that an encoding can restore.
//!
//! Source of the layouts and bits: `mach-o/compact_unwind_encoding.h` of the macOS SDK. Where that header is
//! silent, we follow llvm-mc, ld64.lld and LLVM's libunwind 23.

mod encoding;
mod entry;
mod permutation;
mod registers;

pub use encoding::{DWARF_OFFSET_MAX, Encoding, Flags, Mode};
pub use entry::Entry;
pub use permutation::{Order, decode_order, encode_order};
pub use registers::{PAIRS, Pairs, callee_saved};
