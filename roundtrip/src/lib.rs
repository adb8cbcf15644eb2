//! Holds an unwind table against the call frame information it came from, or two tables against each other.

pub mod cfi;
mod compare;
mod report;
mod table;
mod verify;
pub mod words;

pub use report::{Difference, LeftOut, Report};
pub use table::{Cursor, Segment, Table, TableAnswer};
pub use verify::{Options, verify};
