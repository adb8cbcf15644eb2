//! The ground that both sides of cfipack share: [architectures](Arch) and [registers](Register), the
//! [row](Row), and the structures on disk.
//!
//! You give this crate nothing and get no behaviour from it beyond reading and writing one
//! structure at a time: tables are read by `cfipack-decoder` and written by `cfipack-encoder`.
//! `no_std`; the [pool] of threads that callers lend alone allocates, with the feature `alloc`.

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

pub use address::{Address, FunctionOffset, ImageOffset, Key, LsdaKey, PersonalityKey, SectionOffset};
pub use arch::{Arch, Family, FrameRecord, Register};
pub use endian::Endian;
pub use register_name::RegisterName;
pub use row::{Cfa, Row, Rule};
pub use saved::Saved;
pub use stack_starts::{starts_stacks, switches_stacks};
pub use unsupported::{Reason, Unsupported, UnsupportedFormat};
