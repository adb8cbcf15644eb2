//! Compact unwind: 32-bit [encodings](Encoding) that describe how a whole function is unwound, and the
//! section `__LD,__compact_unwind` in which an assembler hands them to a linker.
//!
//! The section is an array of [rows](Entry), one a function (or a range of one), in any order,
//! with relocations for the three pointers. Linkers turn it into `__TEXT,__unwind_info`
//! ([`crate::unwind_info`]) and drop it. Everything is little endian.
//!
//! Source of the layouts and bits: `mach-o/compact_unwind_encoding.h` of the macOS SDK; where
//! that header is silent, what llvm-mc, ld64.lld and LLVM's libunwind 23 do.

mod encoding;
mod entry;
mod permutation;
mod registers;

pub use encoding::{DWARF_OFFSET_MAX, Encoding, Flags, Mode};
pub use entry::Entry;
pub use permutation::{Order, decode_order, encode_order};
pub use registers::{PAIRS, Pairs, callee_saved};
