//! Verifies `__unwind_info` and `__compact_unwind`, compares two tables, and counts their bytes.
//!
//! Compact unwind describes the body of a function, and is meant to be right at its calls. On the way into and out of a
//! function, while the stack is set up or torn down, an entry need not be right. [`verify()`] counts the PCs there. It
//! accepts them if the CFI describes a step of the set-up or the tear-down, and the code has no call there.
//!
//! - `table`: the entries of a table, and the [`Meaning`] of each. `words` prints meanings.
//! - `verify`: compares a table with CFI. `inexact`, `step` and `calls` decide about prologues and epilogues. `report`
//!   has the result.
//! - `violation`: the rules that readers rely on. Each check stands where its rule applies: `checklist` checks a
//!   table, `rows` the rows of an object, and `encoding` an encoding of either, with the `code` that it describes.
//! - `diff`, `stats`: compare two tables, and count bytes and modes.

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
pub use rows::Rows;
pub use stats::{Bytes, Modes, Stats, modes, stats};
pub use table::{Entry, Meaning, Table};
pub use verify::verify;
pub use violation::{Fault, Violation};
pub use words::MeaningWords;
