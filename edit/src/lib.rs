//! Edited files: unwind tables put into ELF files, Mach-O objects and archives, and taken out again.
//!
//! You give it a file that [`cfipack_container`] has parsed, and a table; you get a [`Rewrite`]: the new file as pieces
//! of the old one and new bytes, each of which states what it is. Nothing is written, and the old file is not copied.
//! A file that cannot be changed safely is an [`EmbedError`], which names the place in the file.
//!
//! - [`Embedding`]: a `.sframe` in a linked file, whose address is known before the table is made.
//! - [`embed_in_object`]: a `.sframe` with its relocations in a relocatable object.
//! - [`without_sframe`]: either file without its table; of one that was made here, the original, byte for byte.
//! - [`with_section`]: another content in the room of a section.
//! - [`CompactUnwindEditor`]: other rows in the `__compact_unwind` of a Mach-O object.
//! - [`rewrite_members`], [`resize_thin_members`], [`rewrite_slices`]: archives, thin archives and fat files around
//!   edited files.
//!
//! ```
//! use cfipack_container::File;
//! use cfipack_edit::{EmbedError, Embedding};
//!
//! /// A linked file with the table that `table` makes for an address.
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
//! **Not for** making tables (`cfipack-encoder`, `cfipack-linker`), finding them in files (`cfipack-container`), or
//! checking what was edited: the feature `structure` of `cfipack-roundtrip` does that, and shares no code with this
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
