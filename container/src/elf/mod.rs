//! ELF files of 64-bit architectures, relocatable and linked.

mod compression;
mod debug_frame;
mod eh_frame_hdr;
mod excluded;
pub(crate) mod file;
pub(crate) mod headers;
mod imports;
mod linked_symbols;
pub(crate) mod machine;
pub(crate) mod placement;
mod relocate;
mod room;
