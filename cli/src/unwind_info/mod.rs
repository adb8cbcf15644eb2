//! `__unwind_info` and `__compact_unwind`: the verb that makes the former, and the parts of the other
//! verbs for files that have either.

pub mod build;
pub mod diff;
pub mod dump;
mod encodings;
mod entries;
pub mod explain;
pub mod lookup;
mod made;
mod personalities;
pub mod source;
pub mod stats;
pub mod verify;
