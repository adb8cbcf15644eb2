//! Encodes `.eh_frame` and `.debug_frame`, to be placed at an address or relocated.
//!
//! - `section`: [`CallFrames`], the section of ELF and other formats, with its relocations.
//! - `mach_o`: [`MachOFrames`], the `__eh_frame` of a Mach-O object.
//! - `records`, `cies`: the CIEs that functions share, and the functions' FDEs.

mod cies;
mod mach_o;
mod records;
mod section;

pub(crate) use cies::{Cies, Properties};
pub use mach_o::{MachOFrames, MachORelocation, MachOTarget};
pub(crate) use records::Records;
pub use section::{CallFrames, PlaceError, Relocation, Target};
