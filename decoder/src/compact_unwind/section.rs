//! The section `__LD,__compact_unwind` of a relocatable object.

use cfipack_format::SectionOffset;
use cfipack_format::compact_unwind::Entry;

/// A `__compact_unwind` section, as stored before relocation.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    bytes: &'a [u8],
    pointer_size: u8,
}

cfipack_format::errors! {
    /// The reason why bytes are not a `__compact_unwind` section.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[non_exhaustive]
    pub enum Error {
        /// The pointer size is neither 4 nor 8 bytes.
        #[error("pointers of {size} bytes, neither 4 nor 8")]
        PointerSize(size: u8),
        /// The section's length is not a multiple of the size of a row.
        #[error("offset {:#x}: {} bytes of a row of {row}", length - length % row, length % row)]
        Length {
            /// The length of the section, in bytes.
            length: usize,
            /// The size of a row, in bytes: 32 or 20.
            row: usize,
        },
    }
}

impl<'a> Section<'a> {
    /// Takes the bytes of a section. `pointer_size` is 8 or 4 bytes.
    ///
    /// # Errors
    /// The pointer size is not 8 or 4, or the length is not a multiple of the size of a row.
    pub fn parse(bytes: &'a [u8], pointer_size: u8) -> Result<Self, Error> {
        if !matches!(pointer_size, 4 | 8) {
            return Err(Error::PointerSize(pointer_size));
        }
        let (length, row) = (bytes.len(), Entry::size(pointer_size));
        if length % row != 0 {
            return Err(Error::Length { length, row });
        }
        Ok(Self { bytes, pointer_size })
    }

    /// Returns the bytes of the section.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of rows.
    pub fn num_entries(&self) -> usize {
        self.bytes.len() / Entry::size(self.pointer_size)
    }

    /// Returns the row with this number, counted from 0, and the row's offset in the section. Returns `None` if
    /// `number` is not below [`num_entries`](Self::num_entries).
    pub fn entry(&self, number: usize) -> Option<(SectionOffset, Entry)> {
        let size = Entry::size(self.pointer_size);
        let bytes = self.bytes.chunks_exact(size).nth(number)?;
        Some((SectionOffset(number * size), Entry::read(bytes, self.pointer_size)?))
    }

    /// Returns the size of a pointer in bytes: 8 or 4.
    pub fn pointer_size(&self) -> u8 {
        self.pointer_size
    }

    /// Returns the rows in the order of the section, each with its offset.
    pub fn entries(&self) -> impl Iterator<Item = (SectionOffset, Entry)> + use<'a> {
        let pointer_size = self.pointer_size;
        let size = Entry::size(pointer_size);
        let rows = self.bytes.chunks_exact(size).enumerate();
        rows.filter_map(move |(i, b)| Some((SectionOffset(i * size), Entry::read(b, pointer_size)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mach-O has pointers of 4 and 8 bytes. A row is three pointers and two words of 4 bytes.
    #[test]
    fn any_other_pointer_size_is_refused() {
        for pointer_size in 0..=u8::MAX {
            let bytes = [0xff; 3 * 255 + 8];
            let row = 3 * usize::from(pointer_size) + 8;
            let section = Section::parse(&bytes[..row], pointer_size);
            match pointer_size {
                4 | 8 => {
                    let section = section.unwrap();
                    assert_eq!((section.entries().count(), section.num_entries()), (1, 1));
                    assert_eq!((section.entry(0), section.entry(1)), (section.entries().next(), None));
                }
                _ => assert_eq!(section.unwrap_err(), Error::PointerSize(pointer_size)),
            }
        }
    }
}
