//! Input and output: maps of input files, objects in them, output files that appear whole or not at all,
//! standard output, and inherited descriptors.

mod attributes;
mod descriptors;
pub mod destination;
pub mod directory;
pub mod each;
pub mod entry;
pub mod input;
pub mod mmap;
pub mod original;
pub mod output;
pub mod reach;
mod replace;
mod signals;
pub mod temporary;
