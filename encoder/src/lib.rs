//! Reads DWARF call frame information and packs its rows into the compact unwind tables: GNU `.sframe`,
//! and Apple's `__unwind_info` and `__compact_unwind`.
//!
//! **You give** the bytes of `.eh_frame` or `.debug_frame`, relocated, and the address where they lie in
//! memory; for Apple's tables also the functions' code, if it is at hand. **You get** the functions one by
//! one ([`cfi`]) and a table of them ([`sframe`]; [`compact_unwind`], then [`unwind_info`]) that needs only
//! addresses: its size is known before the code is laid out, and it can be written again after a relayout.
//! A table omits what it cannot represent, and an [`Unsupported`] names the PC and the rule that is the reason. Any bytes may be given: a malformed record is an error, never a panic.
//!
//! ```
//! use cfipack_cfi as cfi;
//! use cfipack_encoder::sframe;
//! use cfipack_format::{Address, Arch, Key};
//!
//! let eh_frame = [
//!     // CIE: "zR", pcrel sdata4; def_cfa rsp+8, offset rip -8
//!     20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
//!     // FDE: one byte of code, a `ret`, at 0x1000
//!     16, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0x0f, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
//! ];
//! let section = cfi::Section::new(cfi::SectionKind::EhFrame, &eh_frame, Address(0), Arch::Amd64);
//! let mut builder = sframe::Builder::new(Arch::Amd64, sframe::Options::default())?;
//! builder.push_all(cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
//! let table = builder.finish();
//! assert_eq!(table.len(), 28 + 16 + 5 + 3); // header, FDE, attribute, row
//! let bytes = table.into_bytes(Address(0x2000), Key::address)?;
//! assert_eq!(bytes[49..], [0, 3, 8]); // from 0: CFA = sp + 8
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! **Not for** finding sections in files, or applying a file's relocations (`cfipack-container`); reading
//! tables (`cfipack-decoder`); proof that a table represents its CFI (`cfipack-roundtrip`).
//!
//! # Features
//! The crate is `no_std` + `alloc`.
//! - `std`, a default: `Threads` of [`cfipack_format::pool`], those of the standard library. Without it the caller lends
//!   its own as a [`Pool`](cfipack_format::pool::Pool).
//! - `iced-x86`: finds the calls in x86 code, without which fewer functions have a compact encoding.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod compact_unwind;
#[cfg(test)]
mod eh_frame;
pub mod sframe;
pub mod unwind_info;

use cfipack_cfi as cfi;
use cfipack_format::{Reason, Unsupported, UnsupportedFormat};
