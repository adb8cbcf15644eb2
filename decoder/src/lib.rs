//! Reads `.sframe` sections.

#![no_std]

pub mod compact_unwind;
pub mod sframe;
pub mod unwind_info;
