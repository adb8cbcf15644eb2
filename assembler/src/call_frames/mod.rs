//! `.eh_frame` and `.debug_frame`, to be placed or relocated.

mod cies;
mod mach_o;
mod records;
mod section;

pub(crate) use cies::{Cies, Properties};
pub use mach_o::{MachOFrames, MachORelocation, MachOTarget};
pub(crate) use records::Records;
pub use section::{CallFrames, PlaceError, Relocation, Target};
