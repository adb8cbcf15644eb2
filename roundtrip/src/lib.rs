//! Holds an unwind table against the call frame information it came from, or two tables against each other.
//!
//! You give it sections of CFI and tables as `cfipack-encoder` and `cfipack-decoder` name them; you get
//! [reports](Report) in plain structs.
//!
//! - [`verify`]: the table against the CFI, at every PC, both ways. The CFI is [evaluated](cfi) by gimli: the
//!   encoder's own reading of it is never asked, but for the words that say why it left a function out.
//! - [`diff`]: two tables by meaning.
//! - [`stats`]: where the bytes of a table go.
//! - [`unwind_info`]: the same for `__unwind_info` and `__compact_unwind`, and what their readers rely on.
//! - [`kernel_violations`]: what the Linux kernel's reader would refuse.
//!
//! CFI and tables are walked side by side in ascending order of address and no row is kept: memory is in
//! proportion to the number of functions.
//!
//! ```
//! use cfipack_roundtrip::{Options, Table, verify};
//!
//! # use cfipack_format::cfi;
//! # use cfipack_decoder::sframe;
//! fn prove(cfi: &[cfi::Section<'_>], tables: &[sframe::Section<'_>]) -> bool {
//!     let report = verify(cfi, &Table::new(tables), &Options::default());
//!     for difference in &report.differences {
//!         eprintln!("{difference}");
//!     }
//!     report.is_true()
//! }
//! # assert!(prove(&[], &[]));
//! ```

pub mod cfi;
mod compare;
mod cursor;
mod diff;
mod extents;
mod fault;
mod kept;
mod kernel;
mod reason;
mod repeat;
mod report;
mod stats;
mod stub;
mod table;
pub mod unwind_info;
mod verify;
pub mod words;

pub use cursor::{Cursor, Segment};
pub use diff::{Diff, TableDifference, diff};
pub use fault::{Fault, FaultKind};
pub use kernel::{KernelViolation, KernelViolations, kernel_violations};
pub use repeat::Recurrence;
pub use report::{Difference, LeftOut, Report, most_frequent_first};
pub use stats::{Bytes, Stats, innermost, stats};
pub use table::{Table, TableAnswer};
pub use verify::{Options, verify};
