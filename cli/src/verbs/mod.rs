//! The verbs of the command. Each verb has a file with its options.
//!
//! Some parts of verbs depend on the format of the tables. They are in `sframe/` and `unwind_info/`, and `table.rs`
//! chooses between them.

pub mod annotate;
pub mod compact_unwind;
pub mod convert;
pub mod diff;
pub mod dump;
pub mod embed;
pub mod explain;
pub mod gaps;
pub mod lint;
pub mod lookup;
pub mod many;
pub mod merge;
pub mod sframe;
pub mod stats;
pub mod strip;
pub mod table;
pub mod unwind_info;
pub mod verify;
