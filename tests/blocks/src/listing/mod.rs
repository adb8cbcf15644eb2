//! Lists the bytes of a table with the meaning of each field, as the book's pages show them.

mod sframe;
mod unwind_info;

use std::fmt::Write;

/// The listing of a table of either format.
pub fn listing(table: &[u8]) -> String {
    if table.starts_with(&[0xe2, 0xde]) { sframe::listing(table) } else { unwind_info::listing(table) }
}

/// A listing under construction: a cursor in the bytes, and the lines so far.
pub struct Listing<'a> {
    bytes: &'a [u8],
    pub offset: usize,
    text: String,
}

impl<'a> Listing<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Listing { bytes, offset: 0, text: String::new() }
    }

    /// A line without bytes, before a part of the table.
    pub fn heading(&mut self, name: &str) {
        writeln!(self.text, "{name}").unwrap();
    }

    /// The little-endian number of `length` bytes at `offset`.
    pub fn number_at(&self, offset: usize, length: usize) -> u64 {
        let bytes = &self.bytes[offset..offset + length];
        bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Adds the next field: its bytes, four in a line, and the meaning of its number and offset. Returns the number.
    pub fn field(&mut self, length: usize, meaning: impl FnOnce(u64, usize) -> String) -> u64 {
        let number = self.number_at(self.offset, length);
        let mut meaning = meaning(number, self.offset);
        for bytes in self.bytes[self.offset..self.offset + length].chunks(4) {
            let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let line = format!("{:02x}  {:11}  {meaning}", self.offset, hex.join(" "));
            writeln!(self.text, "{}", line.trim_end()).unwrap();
            self.offset += bytes.len();
            meaning.clear();
        }
        number
    }

    /// Returns the text. Every byte must be in it.
    pub fn finish(self) -> String {
        assert_eq!(self.offset, self.bytes.len(), "bytes of the table that the listing lacks");
        self.text
    }
}
