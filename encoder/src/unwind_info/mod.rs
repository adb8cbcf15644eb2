//! Makes `__TEXT,__unwind_info`, Apple's page table, of functions and their encodings.
//!
//! ```
//! use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
//! use cfipack_format::compact_unwind::Encoding;
//! use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};
//!
//! let mut builder = Builder::new(Arch::Amd64, Options::new().with_layout(Layout::Lld))?;
//! builder.push(Entry::new(ImageOffset(0x400), 0x20, Encoding::frame(0, [0; 5])));
//! let section = builder.finish();
//! let reserved = section.max_len(); // before anything has an address
//! // Again after a relayout, nothing re-read: here the keys are image offsets.
//! let placed = section.place(None, Key::image_offset, LsdaKey::image_offset)?;
//! assert!(placed.len() <= reserved);
//! let bytes = placed.into_bytes(|_personality| unreachable!("no entry has one"))?;
//! assert_eq!(bytes[..4], [1, 0, 0, 0]); // version 1
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! A linker that knows the order of its functions reserves less ([`Section::plan`]), and gives where functions, LSDAs and
//! FDEs lie, or that they do not, through [`Places`].
//!
//! # Layouts
//!
//! All write the header, the common palette, the personalities, the index, the LSDA index
//! and the pages, in this order, the page of the lowest address first.
//!
//! | | [`Small`](Layout::Small) | [`Lld`](Layout::Lld) | [`LdPrime`](Layout::LdPrime) | [`Ld64`](Layout::Ld64) |
//! |---|---|---|---|---|
//! | common palette | what saves most | 127 most used, DWARF included; ties: larger encoding first | 127 most used of those used twice, no DWARF; ties: smaller first | as `LdPrime` |
//! | pages | cut where the bytes are fewest | filled from the first entry on; regular if it would hold under 511 entries and more follow | as `Lld` | filled from the last entry down; the last page as large as `__eh_frame` leaves of 4096 bytes; regular if that holds more |
//! | equal DWARF encodings in a page | one slot | one slot | one slot | a slot each |
//! | last offset in a compressed page | 0xffffff | 0xfffffe | 0xffffff | 0xffff00, from the last entry down |
//! | padding | none | every page to 4096 bytes | every page's end to 8 bytes, spare index entries | a page that is 4 bytes short of full; the last of several pages begins where it ends at 4096 bytes |
//! | folding of DWARF entries | yes | yes | no | no |
//! | sentinel | the given end of the code, or the last entry's end | the last entry's end; an entry without information has no length | as `Small` | a byte after that |
//! | personality of DWARF entries | none | none | as for others | as for others |
//! | LSDA of DWARF entries | none | a record, no flag | as for others | a record, no flag |
//! | no entry has information | no section | no section | a section | a section |
//!
//! [`Ld64V253`](Layout::Ld64V253) is `Ld64` up to version 253.3, which asks for one word more than a page needs: a full
//! page has 1020 words and 4 bytes of padding, and at most one encoding in it that no entry refers to.
//!
//! The byte after the code that belongs to ld64's last entry is no function's: libunwind looks for the last byte of a
//! call, and lldb and framehop for PCs of the code. Layout `Small` ends where the code does, also if the entries
//! come from a table of ld64.
//!
//! Sources: the behaviour of ld64.lld 22 and 23.1, of Apple's linkers ld-1053 to ld-1267 and of ld64
//! 253 to 820 and older, compared with this writer byte for byte in the tests.
//!
//! In DWARF mode readers take personality and LSDA from the FDE: LLVM's libunwind looks for an LSDA record
//! only where the flag is, and replaces what it found with what the FDE names; lldb does not use entries in
//! DWARF mode; framehop reads no LSDAs. So layout `Small` omits these records
//! ([`Options::keep_dwarf_lsda`] keeps them).
//!
//! Where it would be wrong, no layout imitates: an entry without information that begins where a
//! function with information begins is omitted (ld64.lld 23 lets it shadow the function, Apple's
//! linker writes it first, ld64 writes aliases twice), a row outside DWARF mode with an LSDA always has its
//! flag, an FDE out of reach is not named (ld64 writes the low 24 bits of its offset), and arm64_32's frame
//! mode is not taken for DWARF mode. Where ld64.lld and Apple's linkers refuse a fourth personality,
//! [`Section::warnings`] names the functions that were moved to their FDEs instead.
//!
//! Where an encoding has no number left or a function lies too far from the last one, ld64 up to 253.3 counts the entry
//! all the same, and writes a wrong encoding or address; layout `Ld64V253` leaves it to the page before. Up to 241 it
//! also merges functions whose stack size is in their code, and places the pages before the last one anywhere.

mod backward;
mod bound;
mod builder;
mod common_palette;
mod dedup_entries;
mod encoding_ids;
mod entry;
mod error;
mod fill;
mod min_pages;
mod options;
mod page;
mod personality;
mod placed;
mod places;
mod plan;
mod refine;
mod section;
mod small;
mod split;

pub use builder::Builder;
pub use entry::Entry;
pub use error::{Warning, WriteError};
pub use options::{Layout, Options};
pub use placed::Placed;
pub use places::Places;
pub use plan::Plan;
pub use section::Section;
