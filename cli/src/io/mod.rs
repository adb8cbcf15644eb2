//! Bytes in and out of the process: maps of input files, output files that appear whole or not at all, standard
//! output, and what the process inherits.

mod descriptors;
mod destination;
pub mod mmap;
pub mod output;
mod replace;
mod signals;
mod temporary;
