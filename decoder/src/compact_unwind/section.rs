//! `__LD,__compact_unwind` of a relocatable object.

use core::fmt;

use cfipack_format::SectionOffset;
use cfipack_format::compact_unwind::Entry;

/// A `__compact_unwind` section, as stored: before relocation.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    bytes: &'a [u8],
    pointer_size: u8,
}

/// The section's length is no multiple of a row's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BadLength {
    /// Bytes of the section.
    pub length: usize,
    /// Bytes of a row: 32 or 20.
    pub row: usize,
}

impl fmt::Display for BadLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.length - self.length % self.row;
        write!(f, "offset {whole:#x}: {} bytes of a row of {}", self.length - whole, self.row)
    }
}

impl core::error::Error for BadLength {}

impl<'a> Section<'a> {
    /// Takes a section's bytes; `pointer_size` is 8 or 4 bytes.
    ///
    /// # Errors
    /// The length is no multiple of a row's.
    pub fn parse(bytes: &'a [u8], pointer_size: u8) -> Result<Self, BadLength> {
        let (length, row) = (bytes.len(), Entry::size(pointer_size));
        if length % row != 0 {
            return Err(BadLength { length, row });
        }
        Ok(Self { bytes, pointer_size })
    }

    /// Bytes of a pointer: 8 or 4.
    pub fn pointer_size(&self) -> u8 {
        self.pointer_size
    }

    /// The rows in their order, each with its offset in the section.
    pub fn entries(&self) -> impl Iterator<Item = (SectionOffset, Entry)> + use<'a> {
        let pointer_size = self.pointer_size;
        let size = Entry::size(pointer_size);
        let rows = self.bytes.chunks_exact(size).enumerate();
        rows.filter_map(move |(i, b)| Some((SectionOffset(i * size), Entry::read(b, pointer_size)?)))
    }
}
