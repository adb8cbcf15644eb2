//! `__unwind_info` and `__compact_unwind`: the verb that builds the former, and the parts of the other
//! verbs for files with either.

pub mod build;
pub mod diff;
pub mod dump;
pub mod encodings;
mod entries;
pub mod explain;
pub mod lookup;
mod personalities;
pub mod source;
pub mod stats;
mod table;
pub mod verify;
