//! The verbs of the command: one file for each, with its options. The part of a verb for Mach-O is in `unwind_info/`.

pub mod asm;
pub mod compact_unwind;
pub mod convert;
pub mod diff;
pub mod dump;
pub mod embed;
pub mod explain;
pub mod gaps;
pub mod lookup;
pub mod many;
pub mod merge;
pub mod stats;
pub mod stats_link;
pub mod strip;
pub mod unwind_info;
pub mod verify;
