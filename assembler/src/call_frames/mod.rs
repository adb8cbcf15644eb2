//! `.eh_frame` and `.debug_frame`, to be placed or relocated.

mod cies;
mod records;
mod section;

pub(crate) use cies::{Cies, Properties};
pub(crate) use records::Records;
pub use section::{CallFrames, PlaceError, Relocation, Target};
