//! The parts of verbs that work on `.sframe` tables of ELF files.

pub mod diff;
pub mod dump;
pub mod explain;
pub mod lookup;
pub mod stats;
pub mod symbols;
pub mod verify;
