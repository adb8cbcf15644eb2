//! `__unwind_info` and `__compact_unwind`: verified against their CFI and against the rules of their readers,
//! two tables against each other, and where their bytes go.
//!
//! Compact unwind speaks of the body of a function, at its calls: on the way in and out of it, where the
//! stack is being set up or torn down, an entry is not meant to be right. [`verify`] counts those PCs and
//! lets them be, if they are such steps by the CFI and no call is among them.

mod calls;
mod checklist;
mod code;
mod diff;
mod encoding;
mod inexact;
mod report;
mod rows;
mod stats;
mod step;
mod table;
mod verify;
mod violation;
mod words;

pub use checklist::{Image, violations};
pub use code::Code;
pub use diff::diff;
pub use report::{Difference, Report};
pub use rows::row_violations;
pub use stats::{Bytes, Modes, Stats, modes, stats};
pub use table::{Entry, Meaning, Table};
pub use verify::verify;
pub use violation::Violation;
pub use words::MeaningWords;
