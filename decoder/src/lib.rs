//! Reads the compact unwind tables in use: GNU `.sframe`, and Apple's `__unwind_info` and
//! `__compact_unwind`.
//!
//! **You give** a section's bytes, relocated, and for `.sframe` the address where they lie in memory.
//! **You get** a view that borrows them: functions, rows, the row for a PC, and the text that binutils
//! or LLVM would print. Nothing is copied and nothing allocated; the bytes are checked where
//! they are read, and an error has the offset in the section and the value there. Any bytes may be
//! given: a damaged table is an error, never a panic.
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
//! **Not for** finding sections in files, or applying a file's relocations (`cfipack-container`);
//! writing tables (`cfipack-encoder`); DWARF CFI, with which `cfipack-roundtrip` compares tables.

#![no_std]

pub mod compact_unwind;
pub mod sframe;
pub mod unwind_info;
pub mod walk;
