//! The verb that builds `__unwind_info`, and the parts of other verbs that work on `__unwind_info` and
//! `__compact_unwind`.

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
