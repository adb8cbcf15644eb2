//! Reads, interprets and writes DWARF call frame information (CFI): the records of `.eh_frame` and
//! `.debug_frame`, and their instructions.
//!
//! **You give** the relocated bytes of a section, and the address where the bytes lie in memory. **You get** a
//! [`Function`] for each FDE, and an [`Interpreter`] that runs a function's instructions and pushes
//! [rows](cfipack_format::Row) into your [`RowSink`]. Rows are not collected, and nothing is allocated per
//! function. You can pass any bytes. A malformed record is an [`Error`] with its offset, and a malformed
//! instruction only loses its function. Neither is a panic.
//!
//! - [`Functions`] is an iterator over the functions of a section. Use [`Functions::keyed`] for a relocatable
//!   object.
//! - [`Function`] is an FDE with its [`Cie`].
//! - [`Instructions`] decodes [`Instruction`]s, and [`Interpreter`] turns them into rows.
//! - [`Registers`] is a trait for the rules of further registers. Use [`StackPointer`] if you need only rows.
//! - [`record_at_or_after`] and [`likely_record_at_or_after`] divide a section between threads.
//! - [`eh_frame_len`] finds the end of a section in memory, if you know only its start.
//! - [`mod@write`] writes records and instructions.
//!
//! ```
//! use cfipack_cfi::{Functions, Section, SectionKind};
//! use cfipack_format::{Address, Arch};
//!
//! let eh_frame = [
//!     // CIE: "zR", pcrel sdata4; def_cfa rsp+8, offset rip -8
//!     20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
//!     // FDE: one byte of code, a `ret`, at 0x1000
//!     16, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0x0f, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
//! ];
//! let section = Section::new(SectionKind::EhFrame, &eh_frame, Address(0), Arch::Amd64);
//! let function = Functions::new(&section).next().expect("a function")?;
//! assert_eq!((function.start, function.size), (Some(Address(0x1000)), 1));
//! # Ok::<(), cfipack_cfi::Error>(())
//! ```
//!
//! **Not for** finding sections in files or applying relocations (`cfipack-container`), nor for tables
//! (`cfipack-encoder`).
//!
//! Sources: DWARF 5 sections 6.4 and 7.24; the Linux Standard Base 5.0, "Exception Frames"; the
//! psABIs of x86-64, AArch64 and s390x for their own instructions and augmentation letters.

#![no_std]

extern crate alloc;

mod cie;
mod cie_cache;
mod cursor;
mod error;
mod expression;
mod function;
mod functions;
mod instruction;
mod interpreter;
mod partition;
mod plain;
mod pointer;
mod record;
mod stack_pointer;
mod state;
mod stretch;
mod terminator;
pub mod write;

// The input of this crate. Users need these types, so the crate re-exports them.
pub use cfipack_format::cfi::{Excluded, Exclusion, Section, SectionKind};
pub use cie::{Cie, Personality};
pub use error::Error;
pub use expression::StubCfa;
pub use function::Function;
pub use functions::{Addresses, Functions, Keys, Limited, Resolved};
#[doc(hidden)]
pub use instruction::Short;
pub use instruction::{Instruction, Instructions};
pub use interpreter::{Change, Interpreter, RowSink};
pub use partition::{likely_record_at_or_after, record_at_or_after};
#[doc(hidden)]
pub use plain::{Code, PlainFde};
pub use pointer::PointerEncoding;
pub use stack_pointer::StackPointer;
pub use state::{RA_SIGN_STATE, Registers, State};
pub use stretch::{Step, Stretch};
pub use terminator::eh_frame_len;
