//! Recordings of `perf record --call-graph dwarf`: their stacks by `.sframe` tables, by CFI and by framehop.
//!
//! The tables are those that `PT_GNU_SFRAME` of the recorded files leads to; the CFI of a file without one is packed
//! into a table first. For recordings of x86-64, on the machine that made them: the files must still be there.

pub mod cfi;
pub mod checked;
pub mod compare;
pub mod file;
pub mod folded;
pub mod hop;
pub mod recording;
pub mod table;
pub mod walk;
