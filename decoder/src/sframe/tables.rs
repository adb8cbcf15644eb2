//! Sections with several tables. Linkers that do not know the format place the tables of their inputs one after
//! the other.

use core::fmt;
use core::iter::FusedIterator;

use cfipack_format::{Address, SectionOffset};

use super::{Error, Section};

/// An iterator over the tables of a `.sframe` section, see [`Section::concatenated`].
#[derive(Clone, Debug)]
pub struct Tables<'a> {
    /// The unread bytes. Empty after an error.
    rest: &'a [u8],
    /// The offset of the unread bytes in the section.
    offset: usize,
    address: Address,
}

/// A table that cannot be read. The bytes after it are not read either, because the table's end is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableError {
    /// The offset of the table in the section.
    pub table: SectionOffset,
    /// The error. Its offsets count from the start of the table.
    pub error: Error,
}

impl<'a> Section<'a> {
    /// The greatest number of zeros between two tables, in bytes. Linkers align a table to at most a page.
    pub const MAX_ZEROS: usize = 0x1_0000;

    /// Returns an iterator over the tables in a section.
    ///
    /// Most sections hold a single table. Linkers that do not know the format (lld, old versions of mold) place
    /// the tables of their inputs one after the other. A section that is empty or holds only zeros has no
    /// table. `address` is where the section lies in memory; the address of each table is adjusted. The
    /// iterator ends after more than [`MAX_ZEROS`](Self::MAX_ZEROS) zeros.
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
