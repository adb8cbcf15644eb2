//! TODO

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
