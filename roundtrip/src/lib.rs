//! Verifies unwind tables against the call frame information (CFI) that they represent, and compares two tables by
//! meaning.
//!
//! You give it sections of CFI, as [`cfipack_format::cfi`] describes them, and tables that `cfipack-decoder` has
//! parsed. You get [reports](Report) in plain structs.
//!
//! The crate shares no interpretation of CFI with the code that it checks: it depends on neither `cfipack-cfi` nor
//! `cfipack-encoder`. gimli evaluates the CFI. The caller gives the reasons why functions are missing.
//!
//! - [`verify`]: compares a table with the CFI, at every PC in both directions, as gimli [evaluates](cfi) it.
//!   [`verify_with_reasons`] asks the caller why functions are missing. [`verify_on`] and [`verify_with_reasons_on`]
//!   divide the work among the threads of a [`Pool`](cfipack_format::pool::Pool).
//! - [`diff`]: compares two tables by meaning.
//! - [`stats`]: counts how a table uses its bytes.
//! - [`unwind_info`]: does the same for `__unwind_info` and `__compact_unwind`, and checks rules that readers rely on.
//! - `structure`, a feature: compares an edited ELF file or Mach-O object with the original.
//! - [`kernel_verdict`]: finds the rules of the Linux kernel's reader that a table breaks.
//!
//! The items for `.sframe`, the format that most callers have, are exported at the root. So are the items that both
//! formats share ([`Options`], [`Diff`], [`Recurrence`]).
//!
//! CFI and tables are walked side by side in ascending order of address, and no row is stored. So memory is in
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

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod cfi;
mod limited;
mod lines;
mod options;
mod same_row;
#[cfg(feature = "serde")]
mod serialize;
mod sframe;
#[cfg(feature = "structure")]
pub mod structure;
pub mod unwind_info;
pub mod words;

pub use lines::{Line, LineSections, Lines, SourceFile};
pub use options::Options;
pub use same_row::same_row;
pub use sframe::{
    Bytes, Cursor, Diff, Difference, Fault, FaultKind, KernelTable, KernelVerdict, KernelViolation,
    ListedDifference, MissingFunction, Recurrence, Report, Segment, Side, Stats, Table, TableAnswer,
    TableDifference, Unverified, diff, innermost, kernel_verdict, most_frequent_first, stats, verify,
    verify_on, verify_with_reasons, verify_with_reasons_on,
};
