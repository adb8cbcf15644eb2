//! Puts unwind tables into ELF files, Mach-O objects and archives, and removes them.
//!
//! You give it a file that [`cfipack_container`] has parsed, and a table. You get a [`Rewrite`]: the new file as ranges
//! of the old file and new bytes, with a name for each piece of new bytes. The crate writes no file and does not copy
//! the old file. If a file cannot be changed safely, you get an [`EmbedError`], which names the place in the file.
//!
//! - [`Embedding`]: puts a `.sframe` into a linked file. You learn its address before you make the table.
//! - [`embed_in_object`]: puts a `.sframe` with its relocations into a relocatable object.
//! - [`without_sframe`]: removes the table from a linked file or an object. If this crate added the table, you get the
//!   original byte for byte.
//! - [`with_section`]: replaces the content of a section.
//! - [`CompactUnwindEditor`]: replaces rows in the `__compact_unwind` of a Mach-O object.
//! - [`rewrite_members`], [`resize_thin_members`], [`rewrite_slices`]: rebuild archives, thin archives and fat files
//!   around edited files.
//!
//! ```
//! use cfipack_container::File;
//! use cfipack_edit::{EmbedError, Embedding};
//!
//! /// Returns a linked file with the table that `table` makes for an address.
//! fn embed(bytes: &[u8], len: usize, table: impl FnOnce(u64) -> Vec<u8>) -> Result<Vec<u8>, EmbedError> {
//!     let file = File::parse(bytes)?;
//!     let place = Embedding::of(&file, len)?;
//!     let table = table(place.address().0);
//!     let new = place.rewrite(table);
//!     for (offset, piece) in new.pieces() {
//!         eprintln!("{offset:#x}: {piece:?}");
//!     }
//!     Ok(new.to_vec(bytes))
//! }
//! # assert!(embed(b"no file", 100, |_| Vec::new()).is_err());
//! ```
//!
//! Use other crates to make tables (`cfipack-encoder`, `cfipack-linker`), to find them in files (`cfipack-container`),
//! and to check an edited file: the feature `structure` of `cfipack-roundtrip` does that, and shares no code with this
//! crate.

mod archive;
mod elf;
mod embed_error;
mod fat;
mod macho;
mod rewrite;

pub use archive::members::rewrite_members;
pub use archive::thin::resize_thin_members;
pub use elf::embed::Embedding;
pub use elf::embed::way::Way;
pub use elf::object_file::{StartRelocation, embed_in_object};
pub use elf::replace::with_section;
pub use elf::strip::without_sframe;
pub use embed_error::EmbedError;
pub use fat::rewrite_slices;
pub use macho::compact_unwind::{CompactUnwindEdit, CompactUnwindEditor};
pub use rewrite::{Patch, Piece, Rewrite};
