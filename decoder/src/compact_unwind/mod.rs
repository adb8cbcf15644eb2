//! Compact unwind: 32-bit encodings, and the rows of `__LD,__compact_unwind`.
//!
//! - [`row`] decodes an encoding. You get its row, and the callee-saved registers beside the row.
//! - [`Section`] reads the section of a relocatable object. It does not apply relocations, which set the
//!   section's pointers: if you have the object, you resolve the pointers yourself.
//! - [`Section::dump`] prints the rows. You pass the names that the relocated pointers refer to.

mod dump;
mod encoding;
mod section;

pub use dump::Destination;
pub use encoding::{EncodingError, row};
pub use section::{Error, Section};
