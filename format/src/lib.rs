//! The types that all crates of cfipack share: [architectures](Arch), [registers](Register), the [row](Row),
//! positions and keys, and the structures on disk.
//!
//! This crate reads and writes a single structure at a time. `cfipack-decoder` reads whole tables, and
//! `cfipack-encoder` writes them. It is `no_std`. Only [`pool`] allocates, and it needs the feature `alloc`.
//!
//! | module | contents |
//! |---|---|
//! | [`sframe`] | `.sframe` on disk: header, FDE, attribute, FRE, versions, ABIs |
//! | [`compact_unwind`] | 32-bit compact encodings, and the rows of `__compact_unwind` |
//! | [`unwind_info`] | `__unwind_info` on disk: header, index, pages |
//! | [`cfi`] | a section of call frame information as a file holds it, before it is read |
//! | [`elf`] | `e_machine` and the relocations of unwind tables, by architecture |
//! | [`pool`] | threads that a caller lends |
//! | [`widen`] | conversions from and to `usize` that never wrap |

#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod address;
mod arch;
pub mod cfi;
pub mod compact_unwind;
pub mod elf;
mod endian;
mod errors;
#[cfg(feature = "alloc")]
pub mod pool;
mod register_name;
mod register_named;
mod riscv;
mod row;
mod saved;
#[cfg(feature = "serde")]
mod serialize;
pub mod sframe;
mod stack_starts;
mod unsupported;
pub mod unwind_info;
pub mod widen;
mod words;

pub use address::{Address, FunctionOffset, ImageOffset, Key, LsdaKey, PersonalityKey, SectionOffset};
pub use arch::{Arch, Family, FrameRecord, Register};
pub use endian::Endian;
pub use register_name::RegisterName;
pub use row::{Cfa, Row, Rule};
pub use saved::Saved;
pub use stack_starts::{starts_stacks, switches_stacks};
pub use unsupported::{Reason, Unsupported, UnsupportedFormat};
pub use words::{CfaWords, RuleWords};
