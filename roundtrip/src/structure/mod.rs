//! Checks the structure of an edited file: it must be the original with a table added, removed or changed.
//!
//! - [`check_structure`]: ELF files and `.sframe`.
//! - [`check_compact_unwind_edit`]: Mach-O objects and `__compact_unwind`.
//!
//! These checks share no code with the crate that edits files. They read both files with the `object` crate, and do not
//! know how the file was edited. They do not check the table itself: use [`verify`](crate::verify) for that.

mod elf;
mod macho;

pub use elf::{MovedSection, Structure, StructureError, Version, check_structure};
pub use macho::{MachODifference, check_compact_unwind_edit};
