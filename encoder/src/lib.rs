//! Packs DWARF call frame information (CFI) into compact unwind tables: GNU `.sframe`, and Apple's `__unwind_info`
//! and `__compact_unwind`.
//!
//! **Input:** the relocated bytes of `.eh_frame` or `.debug_frame`, and the address of these bytes in memory. For
//! Apple's tables you can also pass the code of functions. [`cfi`] splits the bytes into functions.
//!
//! **Output:** a table that needs only addresses. You know its size before the code is laid out, and you can write it
//! again after a relayout. If a function cannot be represented, the table omits it, and an [`Unsupported`] says why:
//! it has the PC and the rule. You can pass any bytes: a malformed record is an error and never a panic.
//!
//! The modules:
//!
//! - [`sframe`]: functions to `.sframe`
//! - [`compact_unwind`]: functions to compact encodings, and `__compact_unwind` for objects
//! - [`unwind_info`]: compact encodings to `__unwind_info` for linked images
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
//! Other crates find sections in files and apply a file's relocations (`cfipack-container`), read tables
//! (`cfipack-decoder`), and prove that a table represents its CFI (`cfipack-roundtrip`).
//!
//! # Features
//! The crate is `no_std` + `alloc`.
//! - `std` (on by default): lets you use `Threads` of [`cfipack_format::pool`], which are the threads of the standard
//!   library. Without it, pass your own [`Pool`](cfipack_format::pool::Pool).
//! - `iced-x86`: finds calls in x86 code. Without it, fewer x86 functions have a compact encoding.

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
