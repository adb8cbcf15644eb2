//! Reads input files and writes output files.
//!
//! - `input` and `each` open inputs and find the objects in them; `mmap` maps files, and `reach` limits how much is
//!   read.
//! - `debug_file` finds the separate debug file of an input.
//! - `found` finds out which tables readers find.
//! - `absent` has the messages about data that a file does not have, and names where to find it instead.
//! - `destination` and `output` write new files and standard output; `spool` keeps standard input in a file.
//! - `original` replaces a file with a changed version; `temporary`, `replace` and `attributes` help it.
//! - `entry` and `directory` open files in a directory without following swapped symbolic links.
//! - `signals` removes temporary files when a signal ends the process.
//! - `values` parses values of options.

pub mod absent;
mod attributes;
pub mod check;
pub mod debug_file;
mod descriptors;
pub mod destination;
pub mod directory;
pub mod each;
pub mod entry;
pub mod found;
pub mod input;
pub mod mmap;
pub mod original;
pub mod output;
pub mod reach;
mod replace;
mod signals;
pub mod spool;
pub mod temporary;
pub mod values;
