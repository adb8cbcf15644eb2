//! Second-level pages, and the lookup inside of one.

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, IndexEntry, MAX_COMPRESSED_OFFSET, PageKind,
    RegularEntry, RegularPage,
};
use cfipack_format::{ImageOffset, SectionOffset};

use super::{Entry, Error, Part, Section, array};

/// A page of a [`Section`], with the index entries around it.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    common: &'a [[u8; 4]],
    /// Number of the page, from 0.
    number: u32,
    /// Offset of the page in the section.
    offset: usize,
    /// First function of the page, as the index says.
    base: ImageOffset,
    /// First function of the next page, or the sentinel's.
    end: ImageOffset,
    /// Offset of the entries in the section.
    entries_off: usize,
    entries: Items<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Items<'a> {
    Regular(&'a [[u8; RegularEntry::SIZE]]),
    Compressed {
        entries: &'a [[u8; CompressedEntry::SIZE]],
        local_off: usize,
        local: &'a [[u8; ENCODING_SIZE]],
    },
}

impl<'a> Page<'a> {
    /// Reads the header of a page that `this` names, and finds its arrays.
    #[inline]
    pub(super) fn parse(
        section: &Section<'a>,
        number: u32,
        this: IndexEntry,
        next: IndexEntry,
    ) -> Result<Self, Error> {
        let bytes = section.bytes;
        let offset = this.page_off as usize;
        if offset == 0 {
            return Err(Error::NoPage { offset: section.index_entry_offset(number as usize, 4) });
        }
        let rest = bytes.get(offset..).unwrap_or(&[]);
        let outside = |size: usize| Error::OutOfBounds {
            part: Part::Page,
            offset: SectionOffset(offset),
            size: size as u64,
            section: bytes.len(),
        };
        let kind = u32::from_le_bytes(*rest.first_chunk().ok_or(outside(RegularPage::SIZE))?);
        let (entries_off, entries) = match PageKind::from_number(kind) {
            Some(PageKind::Compressed) => {
                let header = rest.first_chunk().ok_or(outside(CompressedPage::SIZE))?;
                let header = CompressedPage::read(header);
                let at = offset + usize::from(header.entries_off);
                let local_off = offset + usize::from(header.encodings_off);
                let entries = array(bytes, Part::Entries, at, header.entries_count.into())?;
                let local = array(bytes, Part::LocalEncodings, local_off, header.encodings_count.into())?;
                (at, Items::Compressed { entries, local_off, local })
            }
            Some(PageKind::Regular) => {
                let header = RegularPage::read(rest.first_chunk().ok_or(outside(RegularPage::SIZE))?);
                let at = offset + usize::from(header.entries_off);
                (at, Items::Regular(array(bytes, Part::Entries, at, header.entries_count.into())?))
            }
            None => return Err(Error::PageKind { offset: SectionOffset(offset), kind }),
        };
        let (base, end) = (this.function, next.function);
        Ok(Self { common: section.common, number, offset, base, end, entries_off, entries })
    }

    /// Number of the page, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where the page starts in the section.
    pub fn offset(&self) -> SectionOffset {
        SectionOffset(self.offset)
    }

    /// The page's first function, as the index says; compressed entries count from here.
    pub fn base(&self) -> ImageOffset {
        self.base
    }

    /// Where the page's last entry ends: the next page's first function, or the sentinel's.
    pub fn end(&self) -> ImageOffset {
        self.end
    }

    /// Regular or compressed.
    pub fn kind(&self) -> PageKind {
        match self.entries {
            Items::Regular(_) => PageKind::Regular,
            Items::Compressed { .. } => PageKind::Compressed,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match self.entries {
            Items::Regular(entries) => entries.len(),
            Items::Compressed { entries, .. } => entries.len(),
        }
    }

    /// Whether the page has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The page's own encodings; a regular page has none.
    pub fn local_encodings(&self) -> impl ExactSizeIterator<Item = Encoding> + use<'a> {
        let local = match self.entries {
            Items::Regular(_) => &[],
            Items::Compressed { local, .. } => local,
        };
        local.iter().map(|b| Encoding(u32::from_le_bytes(*b)))
    }

    /// A compressed page's entry as stored; `None` in a regular page or behind the last.
    pub fn compressed_entry(&self, i: usize) -> Option<CompressedEntry> {
        match self.entries {
            Items::Regular(_) => None,
            Items::Compressed { entries, .. } => entries.get(i).map(read_compressed),
        }
    }

    /// The entry with this number; `None` behind the last.
    ///
    /// # Errors
    /// Its function lies beyond 32 bits or out of order, or it names an encoding that is not there.
    pub fn entry(&self, i: usize) -> Option<Result<Entry, Error>> {
        (i < self.len()).then(|| self.read_entry(i))
    }

    /// Function and encoding of the entry with this number, in whatever order the functions are;
    /// `None` behind the last.
    ///
    /// # Errors
    /// The function lies beyond 32 bits, or the entry names an encoding that is not there.
    pub fn stored_entry(&self, i: usize) -> Option<Result<RegularEntry, Error>> {
        let read = || Ok(RegularEntry { function: self.function(i)?, encoding: self.encoding(i)? });
        (i < self.len()).then(read)
    }

    /// Where the last byte of the page's header and arrays ends in the section.
    pub(super) fn bytes_end(&self) -> usize {
        let header_end = self.offset + RegularPage::SIZE;
        match self.entries {
            Items::Regular(entries) => header_end.max(self.entries_off + size_of_val(entries)),
            Items::Compressed { entries, local_off, local } => {
                header_end.max(self.entries_off + size_of_val(entries)).max(local_off + size_of_val(local))
            }
        }
    }

    /// The entry that answers for `pc`: the last that starts at or below it.
    #[inline]
    pub(super) fn lookup(&self, pc: ImageOffset) -> Result<Option<Entry>, Error> {
        let after = match self.entries {
            Items::Regular(entries) => entries.partition_point(|b| RegularEntry::read(b).function <= pc),
            Items::Compressed { entries, .. } => {
                // A PC farther than 24 bits from the base lies behind every entry.
                let delta = pc.0.wrapping_sub(self.base.0).min(MAX_COMPRESSED_OFFSET);
                entries.partition_point(|b| read_compressed(b).function_off() <= delta)
            }
        };
        let Some(i) = after.checked_sub(1) else { return Ok(None) };
        let entry = self.read_entry(i)?;
        if pc >= entry.end {
            let offset = self.entry_offset(i);
            return Err(Error::EntryUnsorted { offset, function: entry.start });
        }
        Ok(Some(entry))
    }

    #[inline]
    fn entry_offset(&self, i: usize) -> SectionOffset {
        let size = match self.entries {
            Items::Regular(_) => RegularEntry::SIZE,
            Items::Compressed { .. } => CompressedEntry::SIZE,
        };
        SectionOffset(self.entries_off + i * size)
    }

    /// The function of entry `i`, or the page's end behind the last.
    #[inline]
    fn function(&self, i: usize) -> Result<ImageOffset, Error> {
        match self.entries {
            Items::Regular(entries) => {
                Ok(entries.get(i).map_or(self.end, |b| RegularEntry::read(b).function))
            }
            Items::Compressed { entries, .. } => {
                let Some(entry) = entries.get(i).map(read_compressed) else { return Ok(self.end) };
                match self.base.0.checked_add(entry.function_off()) {
                    Some(function) => Ok(ImageOffset(function)),
                    None => {
                        let offset = self.entry_offset(i);
                        Err(Error::Function { offset, entry: entry.0, base: self.base })
                    }
                }
            }
        }
    }

    /// The encoding of entry `i`, which is there.
    #[inline]
    fn encoding(&self, i: usize) -> Result<Encoding, Error> {
        match self.entries {
            Items::Regular(entries) => Ok(RegularEntry::read(&entries[i]).encoding),
            Items::Compressed { entries, local, .. } => {
                let index = read_compressed(&entries[i]).encoding_index();
                let at = usize::from(index);
                let found = match at.checked_sub(self.common.len()) {
                    Some(at) => local.get(at),
                    None => self.common.get(at),
                };
                let count = (self.common.len() + local.len()) as u64;
                let found =
                    found.ok_or(Error::EncodingIndex { offset: self.entry_offset(i), index, count })?;
                Ok(Encoding(u32::from_le_bytes(*found)))
            }
        }
    }

    /// Entry `i`, which is there.
    #[inline]
    fn read_entry(&self, i: usize) -> Result<Entry, Error> {
        let offset = self.entry_offset(i);
        let (start, end) = (self.function(i)?, self.function(i + 1)?);
        if end < start {
            return Err(Error::EntryUnsorted { offset, function: start });
        }
        let encoding = self.encoding(i)?;
        Ok(Entry { start, end, encoding, page: self.number, offset })
    }
}

#[inline]
fn read_compressed(b: &[u8; CompressedEntry::SIZE]) -> CompressedEntry {
    CompressedEntry(u32::from_le_bytes(*b))
}
