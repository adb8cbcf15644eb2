//! Verifies `.sframe` tables against CFI, compares two tables, counts their bytes, and checks the kernel's rules.
//!
//! - [`Table`]: the tables of a file, as a search by start address sees them. `extents` decides which function has a
//!   PC.
//! - [`Cursor`]: walks a table in ascending order of address.
//! - [`verify()`]: walks a table and the functions of the CFI side by side. [`Report`] is the result.
//! - [`diff()`]: walks two tables side by side. [`Diff`] is the result.
//! - [`stats()`]: counts bytes, functions and rows.
//! - [`kernel_verdict`]: checks the rules that the Linux kernel has for a table.

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
pub use kernel::{KernelTable, KernelVerdict, KernelViolation, kernel_verdict};
pub use missing::MissingFunction;
pub use repeat::Recurrence;
pub use report::{Difference, ListedDifference, Report, Unverified, most_frequent_first};
pub use stats::{Bytes, Stats, innermost, stats};
pub use table::{Table, TableAnswer};
pub use verify::{verify, verify_on, verify_with_reasons, verify_with_reasons_on};
