//! Makes `__TEXT,__unwind_info`, Apple's page table, from functions and their compact encodings.
//!
//! Push entries into a [`Builder`], reserve the size that the [`Section`] states, and write the table when all
//! addresses are known ([`Placed`]):
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
//! // You can call this again after a relayout. Here the keys are image offsets.
//! let placed = section.place(None, Key::image_offset, LsdaKey::image_offset)?;
//! assert!(placed.len() <= reserved);
//! let bytes = placed.into_bytes(|_personality| unreachable!("no entry has one"))?;
//! assert_eq!(bytes[..4], [1, 0, 0, 0]); // version 1
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! If you know the order of the functions, [`Section::plan`] lets you reserve less. If some functions or LSDAs may
//! have no address, or if FDEs are placed late, implement [`Places`] instead of passing closures.
//!
//! The modules, in the order in which a table passes through them:
//!
//! - `builder`, `entry`, `options`, `personality`: entries are pushed, and the personalities chosen
//! - `section`, `plan`, `bound`, `fill`: the most bytes that a table can have, and pages that keep to it
//! - `dedup_entries`, `encoding_ids`, `places`: entries get addresses, are sorted and merged
//! - `small`, `min_pages`, `refine`: the smallest table
//! - `common_palette`, `split`, `backward`: palette and pages as other linkers choose them
//! - `placed`, `page`: the bytes
//!
//! # Layouts
//!
//! All layouts have the same parts in the same order: the header, the common palette, the personalities, the index,
//! the LSDA index, and the pages, ascending by address.
//!
//! | | [`Small`](Layout::Small) | [`Lld`](Layout::Lld) | [`LdPrime`](Layout::LdPrime) | [`Ld64`](Layout::Ld64) |
//! |---|---|---|---|---|
//! | common palette | the encodings that save most | 127 most used, DWARF included; ties: larger encoding first | 127 most used among encodings with two uses or more, no DWARF; ties: smaller first | as `LdPrime` |
//! | pages | cut so that the table is smallest | filled from the first entry on; regular if a compressed page would hold under 511 entries and more follow | as `Lld` | filled from the last entry down; the last page has the size that `__eh_frame` leaves of 4096 bytes; regular if this holds more |
//! | equal DWARF encodings in a page | one slot | one slot | one slot | a slot each |
//! | last offset in a compressed page | 0xffffff | 0xfffffe | 0xffffff | 0xffff00, from the last entry down |
//! | padding | none | every page to 4096 bytes | every page's end to 8 bytes, spare index entries | after a page that is 4 bytes short of full; before the last of several pages, so that the pages before it end at 4096 bytes |
//! | folding of DWARF entries | yes | yes | no | no |
//! | sentinel | the given end of the code, or the last entry's end | the last entry's end; an entry without information has no length | as `Small` | a byte after the end |
//! | personality of DWARF entries | none | none | as for other entries | as for other entries |
//! | LSDA of DWARF entries | none | a record, no flag | as for other entries | a record, no flag |
//! | no entry has information | no section | no section | a section | a section |
//!
//! [`LdPrime27`](Layout::LdPrime27) is `LdPrime`, but entries without information are never merged, and the sentinel is a
//! byte after the end.
//!
//! [`Zig`](Layout::Zig) fills and pads pages as `Lld`, and ends the table as `Lld`, but the last entry without
//! information keeps its length. The palette is as that of `LdPrime`; of two encodings that are used equally often the
//! first comes first. A page's own palette comes before its entries. Entries in DWARF mode are as in `LdPrime`, with a
//! slot each.
//!
//! [`Ld64V253`](Layout::Ld64V253) is `Ld64` up to version 253.3, which asks for one word more than a page needs. A
//! full page has 1020 words and 4 bytes of padding, and contains at most one encoding that no entry refers to.
//!
//! In `Ld64` the byte after the code belongs to the last entry, but to no function. Readers do not need this byte:
//! libunwind looks up the last byte of a call, and lldb and framehop look up PCs of the code. Layout `Small` ends
//! where the code ends, even if the entries come from a table of ld64.
//!
//! Sources: the behaviour of ld64.lld 22 and 23.1, of Apple's linkers ld-1053 to ld-1267 and ld-27037.1, of Zig's linker in OpenTUI 0.4.5, and of ld64 253 to 820 and
//! older. Tests compare their output with this writer's byte for byte.
//!
//! In DWARF mode, readers take the personality and LSDA from the FDE. LLVM's libunwind looks for an LSDA record only
//! if the flag is set, and then replaces the LSDA by the FDE's. Lldb does not use entries in DWARF mode, and framehop
//! does not read LSDAs. So layout `Small` omits these records ([`Options::keep_dwarf_lsda`] keeps them).
//!
//! No layout imitates a linker where the linker is wrong:
//!
//! - An entry without information is omitted if a function with information begins at the same address. (In ld64.lld
//!   23 the entry hides the function, and ld64 writes aliases twice.) In `LdPrime` and `LdPrime27` an entry of length 0
//!   stays, before the function, as Apple's linker writes it.
//! - Functions in mode 5 of arm64 are not merged, as they are by ld64.lld 23: the encoding counts bytes from the start of
//!   the function.
//! - A row with an LSDA outside of DWARF mode always has its flag.
//! - An FDE with an offset of more than 24 bits is not referred to. (Ld64 writes the low 24 bits of the offset.)
//! - The frame mode of arm64_32 is not mistaken for DWARF mode.
//! - A fourth personality is not refused, as it is by ld64.lld and Apple's linkers. The functions get DWARF mode
//!   instead, and [`Section::warnings`] lists them.
//! - If no number is left for an encoding, or a function lies too far from the last function, then ld64 up to
//!   253.3 counts the entry nevertheless and writes a wrong encoding or address. Layout `Ld64V253` leaves the
//!   entry to the page before.
//! - Ld64 up to 241 also merges functions with a stack size in their code, and places the pages before the last page
//!   anywhere.

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
