//! `.eh_frame` and `.debug_frame`, to be placed or relocated.

mod records;
mod section;

pub(crate) use records::Records;
pub use section::{CallFrames, PlaceError, Relocation, Target};
