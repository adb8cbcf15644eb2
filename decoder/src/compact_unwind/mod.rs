//! Compact unwind: what an [encoding](row) means, and the rows of `__LD,__compact_unwind`.
//!
//! You give [`row`] an encoding and get the row that it stands for, with the callee-saved
//! registers beside it. [`Section`] reads the section of a relocatable object: its pointers are
//! what relocations make of them, so the caller that has the object resolves those
//! ([`Section::dump`] takes their names from the caller).

mod dump;
mod encoding;
mod section;

pub use dump::Destination;
pub use encoding::{EncodingError, row};
pub use section::{Error, Section};
