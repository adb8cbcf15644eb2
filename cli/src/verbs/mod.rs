//! The verbs of the command. Each verb has a folder or a file with its options.
//!
//! A verb that works differently on ELF and Mach-O files has a half for each in its folder: `sframe.rs` and
//! `unwind_info.rs`. The verb itself decides which half it calls. No verb calls another verb: `report/`, `io/`, `edit/`,
//! `instructions/` and `compact/` have what several verbs share.

pub mod annotate;
pub mod compact_unwind;
pub mod convert;
pub mod diff;
pub mod dump;
pub mod explain;
pub mod gaps;
pub mod lint;
pub mod lookup;
pub mod merge;
pub mod stats;
pub mod strip;
pub mod unwind_info;
pub mod verify;
