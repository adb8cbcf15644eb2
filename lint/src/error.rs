//! Errors.

use cfipack_cfi as cfi;
use cfipack_container as container;

/// The reason why a file cannot be analysed.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A section or the symbols of the file cannot be read.
    #[error(transparent)]
    File(#[from] container::Error),
    /// A record of the call frame information cannot be read.
    #[error(transparent)]
    Cfi(#[from] cfi::Error),
    /// The object of an assembler source has no line table.
    #[error("no .debug_line: assemble with -g, which maps code to lines")]
    NoLines,
    /// The line table of the object cannot be read.
    #[error(".debug_line: {0}")]
    Lines(gimli::Error),
    /// The object has code of other sources only.
    #[error("its line table has no code of {}, but of {}", String::from_utf8_lossy(.name), String::from_utf8_lossy(.others))]
    OtherSource {
        /// The name of the source.
        name: Vec<u8>,
        /// The first names of the line table, with commas between them.
        others: Vec<u8>,
    },
}
