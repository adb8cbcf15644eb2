//! Input and output: maps of input files, output files that appear whole or not at all, standard output, and
//! inherited descriptors.

mod descriptors;
mod destination;
pub mod mmap;
pub mod output;
mod replace;
mod signals;
mod temporary;
