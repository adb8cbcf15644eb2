//! The tables of one section: linkers that do not know the format leave those of their inputs one after the other.

use core::fmt;
use core::iter::FusedIterator;

use cfipack_format::{Address, SectionOffset};

use super::{Error, Section};

/// The tables in the bytes of a `.sframe` section, in order: see [`Section::concatenated`].
#[derive(Clone, Debug)]
pub struct Tables<'a> {
    /// The bytes that have not been read; none after an error.
    rest: &'a [u8],
    /// The offset of these bytes in the section.
    offset: usize,
    address: Address,
}

/// A table that cannot be read, and with it whatever follows in the section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableError {
    /// The offset of the table in the section.
    pub table: SectionOffset,
    /// The error. Offsets in it count from the table's start.
    pub error: Error,
}

impl<'a> Section<'a> {
    /// Bytes of zeros, at most, between a table and the next: linkers align each input's table to no more than a page.
    pub const MAX_ZEROS: usize = 0x1_0000;

    /// The tables in a section: one, but for linkers that do not know the format (lld, old versions of mold), which
    /// leave their inputs' one after the other, and none in a section without bytes or of zeros alone. `address` is
    /// where the section lies in memory; each table is read as one that lies at its own place. After more than
    /// [`MAX_ZEROS`](Self::MAX_ZEROS) zeros no table is looked for.
    ///
    /// ```
    /// use cfipack_decoder::sframe::Section;
    /// use cfipack_format::Address;
    ///
    /// // Two tables without functions, and zeros between them.
    /// let empty = [0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    /// let bytes = [&empty[..], &[0; 4], &empty].concat();
    /// let tables: Result<Vec<_>, _> = Section::concatenated(&bytes, Address(0x1000)).collect();
    /// assert_eq!(tables?[1].address(), Address(0x1020));
    /// # Ok::<(), cfipack_decoder::sframe::TableError>(())
    /// ```
    pub fn concatenated(bytes: &'a [u8], address: Address) -> Tables<'a> {
        Tables { rest: bytes, offset: 0, address }
    }
}

impl<'a> Iterator for Tables<'a> {
    type Item = Result<Section<'a>, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let zeros = self.rest.iter().take(Section::MAX_ZEROS + 1).position(|&byte| byte != 0)?;
        self.rest = &self.rest[zeros..];
        self.offset += zeros;
        let table = SectionOffset(self.offset);
        match Section::parse_first(self.rest, self.address.offset(self.offset as i64)) {
            Ok((section, rest)) => {
                self.offset += self.rest.len() - rest.len();
                self.rest = rest;
                Some(Ok(section))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(TableError { table, error }))
            }
        }
    }
}

impl FusedIterator for Tables<'_> {}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.table {
            SectionOffset(0) => self.error.fmt(f),
            offset => write!(f, "table at offset {offset}: {}", self.error),
        }
    }
}

impl core::error::Error for TableError {}
