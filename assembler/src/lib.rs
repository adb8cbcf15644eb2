//! Makes unwind tables for an assembler or JIT. You give CFI directives, and this crate returns call frame
//! information, `.sframe`, compact unwind, and the tables that runtimes register.
//!
//! Directives describe at which offsets of a function's code the canonical frame address (CFA) changes, and
//! where registers are saved. The same description gives every form of table that a reader needs:
//!
//! - [`Directives`] records the directives of a function, and [`Assembly`] collects the functions of an object.
//!   `Assembly` returns [`CallFrames`], [`Sframe`] and [`CompactUnwind`].
//! - [`region`] makes the tables of generated code that libgcc, gdb, perf and others read.
//! - `registry` (feature `std`) keeps the rows of all generated code of a process, and finds the row of a PC
//!   while code comes and goes.
//! - `from_gimli` (feature `gimli`) reads the frame tables of `gimli::write`, for example Cranelift's.
//!
//! ```
//! use cfipack_format::{Address, Arch, Key, Register};
//! use cfipack_assembler::{Assembly, Directives, Target};
//!
//! // push %rbp; mov %rsp,%rbp; ...; pop %rbp; ret
//! let (rsp, rbp) = (Register(7), Register(6));
//! let mut directives = Directives::new(Arch::Amd64, 16);
//! directives.at(1).def_cfa_offset(16).offset(rbp, -16);
//! directives.at(4).def_cfa_register(rbp);
//! directives.at(15).def_cfa(rsp, 8);
//!
//! let mut assembly = Assembly::new(Arch::Amd64);
//! assembly.push(Key(1), &directives)?;
//! let eh_frame = assembly.eh_frame()?;
//! let bytes = eh_frame.to_vec(Address(0x2000), |target| match target {
//!     Target::Function(Key(1)) => Address(0x1000),
//!     other => panic!("no such target: {other:?}"),
//! })?;
//! // In the FDE, from offset 17 of it on: advance 1, def_cfa_offset 16, offset rbp at -16, advance 3, ...
//! assert_eq!(bytes[24 + 17..24 + 23], [0x41, 0x0e, 16, 0x86, 2, 0x43]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod assembly;
mod call_frames;
mod compact_unwind;
mod dialect;
mod directive;
mod directives;
mod error;
mod from_cfi;
#[cfg(feature = "gimli")]
mod from_gimli;
mod instructions;
mod parts;
pub mod region;
#[cfg(feature = "std")]
pub mod registry;
mod sframe;

use cfipack_cfi as cfi;
use cfipack_encoder as encoder;

pub use assembly::{Assembly, AssemblyError};
pub use call_frames::{
    CallFrames, MachOFrames, MachORelocation, MachOTarget, PlaceError, Relocation, Target,
};
pub use compact_unwind::{CompactOptions, CompactUnwind, Encodings};
pub use dialect::Dialect;
pub use directive::{Directive, EscapeOperand, Placed};
pub use directives::{Directives, Frame};
pub use error::{Error, Misuse};
#[cfg(feature = "gimli")]
pub use from_gimli::{GimliError, from_gimli};
pub use sframe::Sframe;
