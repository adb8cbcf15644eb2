//! The judge of `.sframe` tables: verification against CFI, comparison of two tables, counts, and the kernel's rules.
//!
//! A [`Table`] is the tables of a file as a search by start address sees them. A [`Cursor`] walks it in ascending
//! order of address, beside the functions of the CFI ([`verify`]) or another cursor ([`diff`]).

mod compare;
mod cursor;
mod diff;
mod encoded;
mod extents;
mod fault;
mod kernel;
mod missing;
mod repeat;
mod report;
mod stats;
mod table;
mod verify;

pub use cursor::{Cursor, Segment};
pub use diff::{Diff, Side, TableDifference, diff};
pub use fault::{Fault, FaultKind};
pub use kernel::{KernelVerdict, KernelViolation, kernel_verdict};
pub use missing::MissingFunction;
pub use repeat::Recurrence;
pub use report::{Difference, ListedDifference, Report, Unverified, most_frequent_first};
pub use stats::{Bytes, Stats, innermost, stats};
pub use table::{Table, TableAnswer};
pub use verify::{verify, verify_on, verify_with_reasons, verify_with_reasons_on};
