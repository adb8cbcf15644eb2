//! Makes `__TEXT,__unwind_info`, Apple's page table, of functions and their encodings.
//!
//! ```
//! use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
//! use cfipack_format::compact_unwind::Encoding;
//! use cfipack_format::{Arch, ImageOffset};
//!
//! let mut builder = Builder::new(Arch::Amd64, Options { layout: Layout::Lld, ..Options::default() });
//! builder.push(Entry::new(ImageOffset(0x400), 0x20, Encoding::frame(0, [0; 5])));
//! let section = builder.finish();
//! let reserved = section.max_len(); // before anything has an address
//! let placed = section.place(None, |offset| offset)?; // again after a relayout, nothing re-read
//! assert!(placed.len() <= reserved);
//! let mut bytes = vec![0; placed.len()];
//! placed.write(&mut bytes, |_personality| unreachable!("no entry has one"))?;
//! # Ok::<(), cfipack_encoder::unwind_info::Error>(())
//! ```
//!
//! # Layouts
//!
//! All three write the header, the common palette, the personalities, the index, the LSDA index
//! and the pages, in this order, pages forward from the lowest address.
//!
//! | | [`Small`](Layout::Small) | [`Lld`](Layout::Lld) | [`LdPrime`](Layout::LdPrime) |
//! |---|---|---|---|
//! | common palette | what saves most | 127 most used, DWARF included; ties: larger encoding first | 127 most used of those used twice, no DWARF; ties: smaller first |
//! | pages | cut where the bytes are fewest | filled; regular if it would hold under 511 entries and more follow | the same |
//! | equal DWARF encodings in a page | one slot | one slot | a slot each |
//! | last offset in a compressed page | 0xffffff | 0xfffffe | 0xffffff |
//! | padding | none | every page to 4096 bytes | every page's end to 8 bytes, spare index entries |
//! | folding of DWARF entries | yes | yes | no |
//! | sentinel | the given end of the code, or the last entry's end | the last entry's end; an entry without information has no length | as `Small` |
//! | flags and personality of DWARF entries | none | none | as for others |
//!
//! Sources: the behaviour of ld64.lld 22 and 23.1 and of Apple's linkers ld-1115 to ld-1267, held
//! against this writer byte for byte in the tests.
//!
//! Where it would be wrong, no layout imitates: an entry without information that begins where a
//! function with information begins is left out (ld64.lld 23 lets it shadow the function), a row
//! with an LSDA always has its flag, and arm64_32's frame mode is not taken for DWARF mode.
//! Where ld64.lld and Apple's linkers refuse a fourth personality, [`Section::warnings`] names
//! the functions that were moved to their FDEs instead.

mod builder;
mod common_palette;
mod cut;
mod distinct;
mod entry;
mod error;
mod fold;
mod options;
mod page;
mod personality;
mod placed;
mod section;
mod settle;
mod small;
mod split;

pub use builder::Builder;
pub use entry::Entry;
pub use error::{Error, Warning};
pub use options::{Layout, Options};
pub use placed::Placed;
pub use section::Section;
