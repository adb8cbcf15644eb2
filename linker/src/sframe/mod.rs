//! ELF `.sframe`: the tables and the call frame information (CFI) of a link's objects become one table.
//!
//! **You give** for each [`Object`] its `.sframe` (version 1, 2 or 3) and its `.eh_frame`, whichever it has, as they
//! stand in the object, before relocation. A closure gives, for the place of a start field, the key of the function
//! that the field's relocation leads to, or `None` if that function is discarded. **You get** a [`Section`] whose size
//! is exact, which is written once functions have addresses, again after each relayout, or as part of relocatable
//! output with its [relocations](Section::relocations).
//!
//! ```
//! use cfipack_format::{Address, Arch, Key};
//! use cfipack_linker::sframe::{Field, Merger, Object, Options};
//!
//! // A table of version 3 as GNU `as` writes it: one function of 4 bytes, with the row CFA = sp + 8.
//! let mut sframe = vec![0xe2, 0xde, 3, 4, 3, 0, 0xf8, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0];
//! sframe.extend([0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]); // start (relocated), size, offset of rows
//! sframe.extend([1, 0, 0, 0, 0, 0, 3, 8]); // attribute: 1 row; row
//!
//! let mut merger = Merger::new(Arch::Amd64, Options::new())?;
//! for number in [0, 1] {
//!     let object = Object::new().with_sframe(&sframe);
//!     // What the linker knows of the relocation at a place of a section.
//!     let live = |field: Field| match field {
//!         Field::Sframe(at) if at.0 == 28 => Some(Key(number).into()),
//!         _ => None,
//!     };
//!     merger.push_object(&object, live, |note| eprintln!("{number}: {note}"));
//! }
//! let section = merger.finish();
//! assert_eq!(section.len(), 28 + 2 * 16 + 8); // both functions share their rows
//! let mut bytes = vec![0; section.len()];
//! section.write(&mut bytes, Address(0x2000), |key| Address(0x1000 + 0x10 * key.0))?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Which rows a function gets
//! With [`Prefer::Table`] those of its object's table, and where that has none those of its CFI; with
//! [`Prefer::Cfi`] the other way round; with [`Prefer::TableOnly`], which is what GNU `ld` does, those of the table
//! or none. Functions of a table and of CFI are the same if they have the same key.
//!
//! Rows of a table of the output's version are copied as bytes. Those of another version are encoded again, and what
//! the output's version cannot represent is omitted by name.
//!
//! # What is skipped
//! A table that is damaged, of another architecture, or of an unknown version or with unknown flags is skipped as a
//! whole ([`Note::Skipped`]); its functions get their rows from CFI. An empty section and one without functions are
//! nothing. The type of the section, `SHT_GNU_SFRAME` or `SHT_PROGBITS`, does not matter: the caller finds the
//! sections.
//!
//! # Order and threads
//! The bytes depend on the order in which objects are pushed, or [shards](Merger::shard) absorbed, and on nothing
//! else. With layout [`Gnu`](crate::encoder::sframe::Layout::Gnu), [`Prefer::TableOnly`] and the objects in
//! [`gnu_merge_order`] the bytes are those of GNU `ld` 2.47.

mod check;
mod contribution;
mod frame;
mod from_cfi;
mod from_table;
mod gnu_order;
mod input;
mod key_set;
mod large_table;
mod merger;
mod note;
mod options;
mod output;
mod table;

pub use contribution::Contribution;
pub use gnu_order::gnu_merge_order;
pub use input::{Field, Live, Object};
pub use merger::Merger;
pub use note::{Note, SkipReason};
pub use options::{Options, Prefer};
pub use output::{Relocation, RelocationKind, Section};
