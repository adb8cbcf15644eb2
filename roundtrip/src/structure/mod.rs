//! The structure of edited files: checks that a file is another one with a table more, less or changed.
//!
//! The check shares nothing with the code that edits: both files are read on their own here, by the `object` crate.
//! Neither is it told what was done. Tables themselves are for [`verify`](crate::verify) and its like.

mod elf;
mod macho;

pub use elf::{MovedSection, Structure, StructureError, Version, check_structure};
pub use macho::{MachODifference, check_compact_unwind_edit};
