//! Converts the functions of a CFI section to `.sframe`: versions 2 and 3, layouts `small` and `gnu`.
//!
//! A [`Builder`] takes functions, one at a time or a whole section at once, and returns a [`Section`]. The size
//! of the section is exact before any code has an address. You write it for a linked file, again after each
//! change of addresses, or for a relocatable object, where relocations fill in the starts.
//!
//! ```
//! use cfipack_cfi::{self as cfi, Functions, SectionKind};
//! use cfipack_encoder::sframe::{Builder, Layout, Options};
//! use cfipack_format::sframe::Version;
//! use cfipack_format::{Address, Arch};
//!
//! let eh_frame = [
//!     // CIE: "zR", pcrel sdata4; def_cfa rsp+8, offset rip -8
//!     20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
//!     // FDE: 16 bytes of code from 0x1000; after a push of one byte def_cfa_offset 16
//!     20, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0x0f, 0, 0, 16, 0, 0, 0, 0, 0x41, 0x0e, 16, 0, 0, 0, 0,
//! ];
//! let options = Options::new().with_version(Version::V2).with_layout(Layout::Gnu);
//! let mut builder = Builder::new(Arch::Amd64, options)?;
//! let cfi = cfi::Section::new(SectionKind::EhFrame, &eh_frame, Address(0), Arch::Amd64);
//! for function in Functions::new(&cfi) {
//!     if let Err(unsupported) = builder.push(&function?) {
//!         eprintln!("{unsupported}"); // the table omits it
//!     }
//! }
//! let section = builder.finish();
//! let mut bytes = vec![0; section.len()]; // before anything has an address
//! for moved in [0, 0x40] {
//!     section.write(&mut bytes, Address(0x2000), |function| Address(function.0 + moved))?;
//!     let start = 0x1000 + moved as i32 - 0x2000;
//!     assert_eq!(bytes[28..32], start.to_le_bytes());
//! }
//! assert_eq!(bytes[48..], [0, 3, 8, 1, 3, 16]); // from 0: CFA = sp + 8; from 1: sp + 16
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Before linking
//!
//! Each function has a [key](cfipack_format::Key). In a finished file, the key is the function's address. The
//! inputs of a linker have no addresses yet, so a linker chooses the keys:
//! [`Functions::keyed`](crate::cfi::Functions::keyed) passes you the start field of each FDE. You look up the
//! field's relocation and return a key, or `None` for a dead function. Functions at equal offsets of several
//! objects can therefore go into the same builder. [`Section::write`] asks for the address of each key, on
//! several threads if you lend it a [`Pool`](cfipack_format::pool::Pool).
//!
//! ```
//! use cfipack_cfi::{self as cfi, Functions, SectionKind};
//! use cfipack_encoder::sframe::{Builder, Options};
//! use cfipack_format::{Address, Arch, Key, SectionOffset};
//!
//! // The `.eh_frame` of an object, not relocated: the start fields of both FDEs, at 32 and 52, hold zeros.
//! let eh_frame = [
//!     20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
//!     16, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, // 16 bytes of code
//!     16, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, // 32 bytes of code
//! ];
//! let cfi = cfi::Section::new(SectionKind::EhFrame, &eh_frame, Address(0), Arch::Amd64);
//! let mut builder = Builder::new(Arch::Amd64, Options::default())?;
//! for object in [0, 1] {
//!     // A linker looks up the relocation of the start field. The second function of the second object is
//!     // dead.
//!     let key_of = |start_field: SectionOffset| match (object, start_field.0) {
//!         (_, 32) => Some(Key(object << 32 | 1)),
//!         (0, 52) => Some(Key(object << 32 | 2)),
//!         _ => None,
//!     };
//!     builder.push_all(Functions::keyed(&cfi, key_of), |omitted| eprintln!("{omitted:?}"));
//! }
//! let section = builder.finish();
//! assert_eq!(section.num_fdes(), 3);
//! let mut bytes = vec![0; section.len()];
//! for base in [0x1000, 0x5000] {
//!     let address_of = |key: Key| Address(base + 0x100 * (key.0 >> 32) + 0x20 * (key.0 & 3));
//!     section.write(&mut bytes, Address(0x2000), address_of)?;
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! If the format cannot represent a function, you get an [`Unsupported`](crate::Unsupported). The table omits
//! this function, and an unwinder uses its CFI. A table is for stack traces, not for exceptions: it has no
//! personalities, and only two saved registers, the frame pointer and the return address.

// Modules, each of which imports only from the modules above it:
// - options, finish, parts: options of the builder and of its end; work on a pool
// - rows: a function's rows become FREs; table: FREs become blocks, entries and the `Section`
// - fast: common functions become FREs directly from their instructions
// - builder (with draft, the unfinished table): the `Builder`
// - push_one, push_common, push_all: functions of CFI; push_table, push_stubs: functions with given rows
// - parallel: several threads

mod builder;
mod draft;
mod fast;
mod finish;
mod options;
mod parallel;
mod push_all;
mod push_common;
mod push_one;
mod push_stubs;
mod push_table;
mod rows;
mod table;

pub use builder::Builder;
pub use finish::Finish;
pub use options::{Layout, Options};
pub use parallel::source::Parallel;
pub use push_all::{OmittedFunction, Source};
pub use push_stubs::StubPart;
pub use rows::gas_marks::{GasMarks, Marked};
pub use table::at::At;
pub use table::conflict::{Conflict, Written};
pub use table::encoded::{EncodedRows, SharedRows, TableFunction, TableRows};
pub use table::section::{Section, StartField};
pub use table::write_error::WriteError;
