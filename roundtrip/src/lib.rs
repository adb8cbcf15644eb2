//! Holds an unwind table against the call frame information it came from, or two tables against each other.

pub mod cfi;
mod compare;
mod diff;
mod explain;
mod kernel;
mod repeat;
mod report;
mod stats;
mod table;
mod verify;
pub mod words;

pub use diff::{Diff, TableDifference, diff};
pub use explain::{Explanation, explain};
pub use kernel::{Violation, kernel_violations};
pub use report::{Difference, LeftOut, Report};
pub use stats::{Bytes, Stats, stats};
pub use table::{Cursor, Segment, Table, TableAnswer};
pub use verify::{Options, verify};
