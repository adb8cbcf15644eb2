//! ELF files of 64-bit architectures, relocatable and linked.
//!
//! - [`file`], [`headers`]: an ELF file and its parsed headers
//! - [`placement`]: addresses for the sections of relocatable objects
//! - [`relocate`], [`linked_symbols`]: applies relocations to copies of sections
//! - [`compression`], [`room`]: compressed sections, and limits on memory
//! - [`call_frames`], [`eh_frame_hdr`]: finds call frame information, by names and as unwinders do, and its index
//! - [`separate`]: separate debug files
//! - [`debug_frame`], [`excluded`]: FDEs that do not count
//! - [`imports`]: pointers to functions of other files
//! - [`machine`]: names for errors

mod call_frames;
mod compression;
mod debug_frame;
pub(crate) mod eh_frame_hdr;
mod excluded;
pub(crate) mod file;
pub(crate) mod headers;
mod imports;
mod linked_symbols;
pub(crate) mod machine;
pub(crate) mod placement;
mod relocate;
mod room;
mod separate;
