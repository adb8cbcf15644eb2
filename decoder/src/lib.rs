//! Reads the compact unwind tables in use: GNU `.sframe`, and Apple's `__unwind_info` and
//! `__compact_unwind`.
//!
//! **You give** the relocated bytes of a section, and for `.sframe` the address where the bytes lie in memory.
//! **You get** a view that borrows the bytes: functions, rows, the row for a PC, and the text that binutils or
//! LLVM would print. Nothing is copied and nothing is allocated. The bytes are checked when they are read, and
//! an error names the offset in the section and the value there. You can pass any bytes: a damaged table is an
//! error, never a panic.
//!
//! | module | contents |
//! |---|---|
//! | [`sframe`] | `.sframe`: parse, look up a PC, list functions and rows, print, step to the caller |
//! | [`walk`] | from the registers of a thread to its outermost frame, for profilers and crash handlers |
//! | [`compact_unwind`] | a 32-bit compact encoding as a row; the rows of `__compact_unwind` |
//! | [`unwind_info`] | `__unwind_info`: parse, look up an image offset, list pages and entries, print |
//!
//! ```
//! use cfipack_decoder::sframe::Section;
//! use cfipack_format::{Address, Cfa, Rule};
//!
//! // The smallest table that GNU as 2.47 writes for amd64: one function, one `ret`, linked 0x100
//! // bytes before its section.
//! let bytes = [
//!     0xe2, 0xde, 3, 4, 3, 0, 0xf8, 0, // magic, version 3, starts relative to their field, amd64
//!     1, 0, 0, 0, 1, 0, 0, 0, // one function, one row
//!     8, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, // 8 bytes of rows, after 16 of functions
//!     0xe4, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, // 1 byte at -0x11c
//!     1, 0, 0, 0, 0, // one row with a 1-byte start
//!     0, 3, 8, // from 0: CFA = sp + 8
//! ];
//! let section = Section::parse(&bytes, Address(0x2000))?;
//! let row = section.lookup(Address(0x1f00))?.expect("the table has this PC");
//! let stack_pointer = section.arch().stack_pointer();
//! assert_eq!(row.cfa, Cfa::Register { register: stack_pointer, offset: 8 });
//! assert_eq!(row.return_address, Rule::Cfa(-8));
//! assert_eq!(section.lookup(Address(0x1f01))?, None);
//! # Ok::<(), cfipack_decoder::sframe::Error>(())
//! ```
//!
//! **Not for** finding sections in files or applying a file's relocations (`cfipack-container`), nor for
//! writing tables (`cfipack-encoder`), nor for reading DWARF CFI: `cfipack-roundtrip` compares tables with CFI.

#![no_std]

pub mod compact_unwind;
pub mod sframe;
pub mod unwind_info;
pub mod walk;
