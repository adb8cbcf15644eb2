//! Builds the ELF section `.sframe` of a link from the `.sframe` and `.eh_frame` sections of its objects.
//!
//! **Input.** Push an [`Object`] with its `.sframe` (version 1, 2 or 3), its `.eh_frame`, or both, as they stand in
//! the object before relocation. You also pass a closure. It gets the place of a start field, and returns the key of
//! the function that the field's relocation leads to. It returns `None` if the linker discards that function.
//!
//! **Output.** [`Merger::finish`] returns a [`Section`] with an exact size. Write it once functions have addresses,
//! and again after each relayout. For `ld -r`, write it together with its [relocations](Section::relocations).
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
//!     // Returns the key of the function that the field's relocation leads to.
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
//! [`Options::prefer`] decides:
//!
//! - [`Prefer::Table`]: the rows of the object's table. A function without rows in the table gets rows from CFI.
//! - [`Prefer::Cfi`]: rows from CFI. A function without CFI gets the rows of the table.
//! - [`Prefer::TableOnly`]: the rows of the table, or none. GNU `ld` does this.
//!
//! An entry of a table and an FDE describe the same function if the closure returns the same key for both.
//!
//! If a table has the output's version, its rows are copied as bytes. Otherwise its rows are encoded again. A
//! function that the output's version cannot represent is omitted, and a [`Note`] names it.
//!
//! # Skipped tables
//! A table is skipped as a whole if it is damaged, is for another architecture, or has an unknown version or unknown
//! flags. [`Note::Skipped`] gives the reason, and the table's functions get their rows from CFI. An empty section and
//! a table without functions produce no note. The type of the section (`SHT_GNU_SFRAME` or `SHT_PROGBITS`) does not
//! matter, because the caller finds the sections.
//!
//! # Order and threads
//! The bytes depend only on the order in which you push objects or absorb [shards](Merger::shard), never on the
//! number of threads. The bytes are identical to the output of GNU `ld` 2.47 with layout
//! [`Gnu`](crate::encoder::sframe::Layout::Gnu), [`Prefer::TableOnly`] and the objects in [`gnu_merge_order`].
//!
//! # Modules
//! - `merger`: [`Merger`], the way in; `parallel` divides the objects among threads.
//! - `from_table`, `table`, `check`: check a table of an object, then copy or reencode its rows.
//! - `from_cfi`: the functions of an object's `.eh_frame`. `key_set` remembers which functions have rows already.
//! - `output`: [`Section`], the finished section. `frame`: [`Merger::frame_at`].
//! - `input`, `options`, `note`, `contribution`, `gnu_order`: the types around these calls.

mod check;
mod contribution;
mod frame;
mod from_cfi;
mod from_table;
mod gnu_order;
mod input;
mod key_set;
mod merger;
mod note;
mod options;
mod output;
mod parallel;
mod table;

pub use contribution::Contribution;
pub use gnu_order::gnu_merge_order;
pub use input::{Field, Live, Object};
pub use merger::Merger;
pub use note::{Note, SkipReason};
pub use options::{Options, Prefer};
pub use output::{Relocation, RelocationKind, Section};
