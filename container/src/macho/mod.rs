//! Mach-O files, relocatable and linked: x86-64, i386, arm64 and arm64_32, all little-endian.
//!
//! - [`file`], [`headers`]: a Mach-O file and its parsed headers
//! - [`compact_unwind`]: the rows of `__compact_unwind`
//! - [`relocate`], [`symbols`], [`labels`]: relocations, the symbol table, and how symbols divide sections
//! - [`kinds`], [`range`]: names for errors, and ranges of a file
//!
//! The sections of a relocatable Mach-O object have separate addresses already. So no [`Placement`](crate::Placement)
//! is needed, and the addresses are as with `Placement::Apart`.

pub(crate) mod compact_unwind;
pub(crate) mod file;
pub(crate) mod headers;
mod kinds;
pub(crate) mod labels;
mod range;
pub(crate) mod relocate;
pub(crate) mod symbols;
