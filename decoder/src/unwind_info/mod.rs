//! `__TEXT,__unwind_info`: the page table that Apple's linkers make of compact unwind.
//!
//! You give a section's bytes to [`Section::parse`] and get a view: [`Section::lookup`] finds the
//! [entry](Entry) for an image offset, [`Section::entries`] walks all of them,
//! [`Section::dump`] prints the table. Nothing is copied; what is wrong is found where it is read.
//! [`crate::compact_unwind::row`] translates an entry's encoding.
//!
//! Every array is found by its offset: slack between arrays (ld-prime), pages of any size (sold)
//! and encodings before their page's entries (Zig) are as good as what lld and ld64 write.
//! Of several entries at one address (ld64's aliases, lld's empty sections) the last is the one
//! that has bytes, as in every other reader.

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

/// An `__unwind_info` section.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    bytes: &'a [u8],
    header: Header,
    common: &'a [[u8; ENCODING_SIZE]],
    personalities: &'a [[u8; PERSONALITY_SIZE]],
    index: &'a [[u8; IndexEntry::SIZE]],
}

/// An entry: from `start` up to `end`, code is unwound as `encoding` describes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// First byte.
    pub start: ImageOffset,
    /// First byte after it: the next entry's start. Equal to `start` where several entries have
    /// one address, except for the last of them.
    pub end: ImageOffset,
    /// The encoding of the function's unwinding.
    pub encoding: Encoding,
    /// Number of the page, from 0.
    pub page: u32,
}

impl<'a> Section<'a> {
    /// Reads the header and finds the arrays that it names.
    ///
    /// # Errors
    /// A version other than 1, an index without a sentinel, an array outside of the section.
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

    /// The section's bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The encodings that compressed pages share.
    pub fn common_encodings(&self) -> impl ExactSizeIterator<Item = Encoding> + use<'a> {
        self.common.iter().map(|b| Encoding(u32::from_le_bytes(*b)))
    }

    /// The personalities: image offsets of slots that hold a personality's address. An encoding
    /// counts them from 1.
    pub fn personalities(&self) -> impl ExactSizeIterator<Item = ImageOffset> + use<'a> {
        self.personalities.iter().map(|b| ImageOffset(u32::from_le_bytes(*b)))
    }

    /// The slot of an entry's personality; `None` if it has none.
    ///
    /// # Errors
    /// The encoding names one that is not there.
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

/// The array of `count` items of `SIZE` bytes at `offset`.
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
