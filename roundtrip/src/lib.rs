//! Holds an unwind table against the call frame information it came from, or two tables against each other.
//!
//! You give it sections of CFI, as [`cfipack_format::cfi`] describes them, and tables that `cfipack-decoder` has
//! parsed; you get [reports](Report) in plain structs.
//!
//! The crate shares no code with what it judges: it depends on neither `cfipack-cfi` nor `cfipack-encoder`. gimli
//! evaluates the CFI, and the reasons for which functions are missing come from the caller.
//!
//! - [`verify`]: the table against the CFI, at every PC, both ways, as gimli [evaluates](cfi) it.
//!   [`verify_with_reasons`] asks the caller why functions are missing.
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
mod missing;
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
pub use missing::MissingFunction;
pub use repeat::Recurrence;
pub use report::{Difference, LeftOut, Report, most_frequent_first};
pub use stats::{Bytes, Stats, innermost, stats};
pub use table::{Table, TableAnswer};
pub use verify::{Options, verify, verify_with_reasons};
