//! Functions with rows that exist already: from other tables, as bytes or as rows, and from code that a linker
//! writes itself.
//!
//! The input is the properties of a function ([`TableFunction`]) and its FREs or rows. The output is an entry
//! of the [builder](crate::sframe::Builder), as if the rows had come from call frame information. Bytes are
//! copied as they are; rows are encoded for the builder's version.

use core::iter::Empty;
use core::ops::Range;

use cfipack_format::sframe::FdeInfo;
use cfipack_format::{Key, Row};

use crate::sframe::table::block::Blocks;
use crate::sframe::table::chunk::CHUNK;
use crate::sframe::table::wide_attribute::WideAttribute;
use crate::{Reason, Unsupported};

/// The properties of a function, or of a part of a function that has an entry of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableFunction {
    /// The function.
    pub key: Key,
    /// True if the key is the function's address.
    pub has_address: bool,
    /// Bytes from the function's start to the first PC of the entry. If the offset is not 0, the entry
    /// continues the function of the entry that you pushed before it.
    pub offset: u64,
    /// The size of the entry's code, in bytes.
    pub size: u32,
    /// The PC type, the key of signed return addresses, the signal frame flag, and the FRE type. Layout `Gnu`
    /// keeps the FRE type if it is wide enough.
    pub info: FdeInfo,
    /// Bytes after which the rows of a PC-mask function repeat, else 0.
    pub rep_size: u8,
}

impl TableFunction {
    /// Describes an ordinary function of `size` bytes, without an address.
    pub const fn new(key: Key, size: u32) -> Self {
        Self { key, has_address: false, offset: 0, size, info: FdeInfo::empty(), rep_size: 0 }
    }

    /// Sets whether the key is the function's [address](Self::has_address).
    #[must_use]
    pub const fn with_address(self, has_address: bool) -> Self {
        Self { has_address, ..self }
    }

    /// Sets how many bytes the entry's first PC is from the function's start.
    #[must_use]
    pub const fn with_offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sets the info byte, and the number of bytes after which the rows of a PC-mask function repeat.
    #[must_use]
    pub const fn with_info(mut self, info: FdeInfo, rep_size: u8) -> Self {
        self.info = info;
        self.rep_size = rep_size;
        self
    }

    pub(crate) fn start(&self) -> u64 {
        self.key.0.wrapping_add(self.offset)
    }

    pub(crate) fn unsupported(&self, offset: u32, reason: Reason) -> Unsupported {
        Unsupported { function: self.key, offset: self.offset + u64::from(offset), reason }
    }
}

/// A function's FREs as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EncodedRows<'b> {
    /// The FREs, without an attribute. They must be valid for the builder's version and architecture and have
    /// the FRE type of the function's info byte. The table copies them unchecked.
    pub fres: &'b [u8],
    /// The number of FREs.
    pub num_fres: u32,
    /// The second info byte of the attribute, with the FDE type; 0 before version 3.
    pub info2: u8,
}

impl<'b> EncodedRows<'b> {
    /// Takes `num_fres` FREs of a default FDE.
    pub const fn new(fres: &'b [u8], num_fres: u32) -> Self {
        Self { fres, num_fres, info2: 0 }
    }

    /// Sets the second info byte of the attribute.
    #[must_use]
    pub const fn with_info2(mut self, info2: u8) -> Self {
        self.info2 = info2;
        self
    }
}

/// The place of a function's rows in a builder, for other functions with the same rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedRows {
    pub(crate) block: u32,
    pub(crate) num_fres: u32,
}

/// The rows of a function without call frame information, for
/// [`Builder::push_table`](crate::sframe::Builder::push_table).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TableRows<'r, I = Empty<Row>> {
    /// Rows as bytes.
    Encoded(EncodedRows<'r>),
    /// The rows of a function that you pushed before.
    Shared(SharedRows),
    /// Rows to be encoded.
    Rows(I),
}

impl<'r> From<EncodedRows<'r>> for TableRows<'r> {
    #[inline]
    fn from(rows: EncodedRows<'r>) -> Self {
        Self::Encoded(rows)
    }
}

impl From<SharedRows> for TableRows<'_> {
    #[inline]
    fn from(rows: SharedRows) -> Self {
        Self::Shared(rows)
    }
}

impl<'a> Blocks<'a> {
    /// Finds a block with these bytes, or adds it. Returns its number.
    pub(crate) fn add_bytes(
        &mut self,
        attribute: &[u8],
        fres: &[u8],
        wide: WideAttribute,
    ) -> Result<u32, Reason> {
        let len = attribute.len() + fres.len();
        if !self.has_room(len) {
            return Err(Reason::SectionSize);
        }
        self.make_room_for(len);
        // Write the block to its future place, where it stays if it is new.
        let at = self.end;
        let (head, tail) = self.bytes[at..][..len].split_at_mut(attribute.len());
        head.copy_from_slice(attribute);
        tail.copy_from_slice(fres);
        let hash = self.hash(&self.bytes[at..], len);
        if let Some(number) = self.find(hash, &self.bytes[at..], len, wide) {
            return Ok(number);
        }
        let number = self.add_place(len, wide);
        if let Some(index) = &mut self.index {
            index.push(hash);
        }
        Ok(number)
    }

    /// Finds a block with these bytes, or adds it as a range of the caller's memory. Returns its number.
    pub(crate) fn lend(
        &mut self,
        memory: &'a [u8],
        range: Range<usize>,
        wide: WideAttribute,
    ) -> Result<u32, Reason> {
        let len = range.len();
        if !self.has_room(len) {
            return Err(Reason::SectionSize);
        }
        if self.index.is_none() {
            return Ok(self.add_lent(memory, range, wide));
        }
        // The hash reads up to a chunk after the bytes. If `memory` ends before that, copy the bytes.
        let hash = if memory.len() - range.start >= len + CHUNK {
            self.hash(&memory[range.start..], len)
        } else {
            self.make_room_for(len);
            let at = self.end;
            self.bytes[at..at + len].copy_from_slice(&memory[range.clone()]);
            self.hash(&self.bytes[at..], len)
        };
        if let Some(number) = self.find(hash, &memory[range.clone()], len, wide) {
            return Ok(number);
        }
        if let Some(index) = &mut self.index {
            index.push(hash);
        }
        Ok(self.add_lent(memory, range, wide))
    }
}
