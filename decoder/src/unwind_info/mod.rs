//! Reads `__TEXT,__unwind_info`, the page table that Apple's linkers make from compact unwind.
//!
//! - [`Section::parse`] checks the header and the bounds of its arrays. Other errors are found when the bytes
//!   are read.
//! - [`Section::lookup`] returns the [`Entry`] for an image offset. [`crate::compact_unwind::row`] decodes its
//!   encoding.
//! - [`Section::entries`] lists all entries, and [`Section::pages`] lists all pages.
//! - [`Section::lsda`] and [`Section::personality`] return the other data of an entry.
//! - [`Section::dump`] prints the table as `llvm-objdump` does.
//!
//! The reader finds every array by its offset. So it accepts unused bytes between arrays (ld-prime), pages of
//! any size (sold), and encodings before the entries of their page (Zig), as well as the output of lld and
//! ld64. If several entries have the same address (ld64's aliases, lld's empty sections), only the last of them
//! covers bytes, as in every other reader.

mod claimed;
mod dump;
mod entries;
mod error;
mod index;
mod lookup;
mod page;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{ENCODING_SIZE, Header, IndexEntry, PERSONALITY_SIZE, VERSION};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{ImageOffset, SectionOffset};

pub use dump::DumpSummary;
pub use entries::{Entries, Pages};
pub use error::{Error, Part};
pub use page::Page;

/// A view of an `__unwind_info` section. It borrows the section's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    bytes: &'a [u8],
    header: Header,
    common: &'a [[u8; ENCODING_SIZE]],
    personalities: &'a [[u8; PERSONALITY_SIZE]],
    index: &'a [[u8; IndexEntry::SIZE]],
}

/// An entry of the table. Its encoding covers the code from `start` up to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The first byte of the code.
    pub start: ImageOffset,
    /// The first byte after the code: the start of the next entry. If several entries have the same address,
    /// `end` is equal to `start` for all of them except the last.
    pub end: ImageOffset,
    /// The encoding that describes how to unwind the code.
    pub encoding: Encoding,
    /// The number of the page, from 0.
    pub page: u32,
}

impl<'a> Section<'a> {
    /// Reads the header and finds the arrays that it names.
    ///
    /// # Errors
    /// The version is not 1, the index has no sentinel, or an array lies outside the section.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let Some(header) = bytes.first_chunk() else {
            let (part, offset, size) = (Part::Header, SectionOffset(0), Header::SIZE.to_u64());
            return Err(Error::OutOfBounds { part, offset, size, section: bytes.len() });
        };
        let header = Header::read(header);
        if header.version != VERSION {
            return Err(Error::Version(header.version));
        }
        if header.index_count == 0 {
            return Err(Error::NoIndex);
        }
        let index = array(bytes, Part::Index, header.index_off.to_usize(), header.index_count)?;
        let (at, count) = (header.common_off.to_usize(), header.common_count);
        let common = array(bytes, Part::CommonEncodings, at, count)?;
        let (at, count) = (header.personalities_off.to_usize(), header.personalities_count);
        let personalities = array(bytes, Part::Personalities, at, count)?;
        Ok(Self { bytes, header, common, personalities, index })
    }

    /// Returns the bytes of the section.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Returns the common encodings, which compressed pages share.
    pub fn common_encodings(&self) -> impl ExactSizeIterator<Item = Encoding> + use<'a> {
        self.common.iter().map(|b| Encoding(u32::from_le_bytes(*b)))
    }

    /// Returns the personalities. Each is the image offset of a slot that holds the address of a personality
    /// routine. Encodings count personalities from 1.
    pub fn personalities(&self) -> impl ExactSizeIterator<Item = ImageOffset> + use<'a> {
        self.personalities.iter().map(|b| ImageOffset(u32::from_le_bytes(*b)))
    }

    /// Returns the slot of an entry's personality, or `None` if the entry has no personality.
    ///
    /// # Errors
    /// The encoding names a personality that the section does not have.
    pub fn personality(&self, entry: &Entry) -> Result<Option<ImageOffset>, Error> {
        let number = entry.encoding.personality();
        let Some(i) = usize::from(number).checked_sub(1) else { return Ok(None) };
        match self.personalities.get(i) {
            Some(b) => Ok(Some(ImageOffset(u32::from_le_bytes(*b)))),
            None => {
                Err(Error::Personality { function: entry.start, number, count: self.personalities.len() })
            }
        }
    }
}

/// Returns the array of `count` items of `SIZE` bytes at `offset`.
#[inline]
fn array<const SIZE: usize>(
    bytes: &[u8],
    part: Part,
    offset: usize,
    count: u32,
) -> Result<&[[u8; SIZE]], Error> {
    match bytes.get(offset..).and_then(|rest| rest.as_chunks().0.get(..count.to_usize())) {
        Some(items) => Ok(items),
        None => {
            let (size, offset) = (u64::from(count) * SIZE.to_u64(), SectionOffset(offset));
            Err(Error::OutOfBounds { part, offset, size, section: bytes.len() })
        }
    }
}
