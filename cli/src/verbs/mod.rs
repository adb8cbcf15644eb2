//! The verbs of the command: one file for each, with its options. Parts of verbs that depend on the
//! tables' format are in `sframe/` and `unwind_info/`, which `table.rs` chooses.

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
