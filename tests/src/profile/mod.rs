//! Reads recordings of `perf record --call-graph dwarf`, and walks their stacks by `.sframe` tables, by CFI and by
//! framehop.
//!
//! The tables are found by `PT_GNU_SFRAME` of the recorded files. For a file without a table, one is made of its CFI.
//! Recordings must be of x86-64, and read on the machine that made them, because the files must still exist.

pub mod cfi;
pub mod checked;
pub mod compare;
pub mod file;
pub mod folded;
pub mod hop;
pub mod recording;
pub mod table;
pub mod walk;
