//! Second-level pages, and the lookup in a page.

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, IndexEntry, PageKind, RegularEntry, RegularPage,
};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{ImageOffset, SectionOffset};

use super::{Entry, Error, Part, Section, array};

/// A page of a [`Section`].
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    common: &'a [[u8; ENCODING_SIZE]],
    /// The number of the page, from 0.
    number: u32,
    /// The offset of the page in the section.
    offset: usize,
    /// The page's first function, according to the index.
    base: ImageOffset,
    /// The first function of the next page, or the sentinel's function.
    end: ImageOffset,
    /// True if the next index entry is the sentinel.
    is_last: bool,
    /// The offset of the entries in the section.
    entries_off: usize,
    entries: Items<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Items<'a> {
    Regular(&'a [[u8; RegularEntry::SIZE]]),
    Compressed {
        entries: &'a [[u8; CompressedEntry::SIZE]],
        /// The offset of the page's own encodings in the section.
        local_off: usize,
        local: &'a [[u8; ENCODING_SIZE]],
    },
}

impl<'a> Page<'a> {
    /// Reads the header of the page that the index entry `this` names, and finds its arrays.
    pub(super) fn parse(
        section: &Section<'a>,
        number: u32,
        this: IndexEntry,
        next: IndexEntry,
    ) -> Result<Self, Error> {
        let bytes = section.bytes;
        let offset = this.page_off.to_usize();
        if offset == 0 {
            return Err(Error::NoPage { offset: section.index_entry_offset(number.to_usize(), 4) });
        }
        // The header of a regular page is shorter, but with an entry a regular page has as many bytes.
        let Some(header) = bytes.get(offset..).and_then(|rest| rest.first_chunk()) else {
            let (part, size) = (Part::Page, CompressedPage::SIZE.to_u64());
            let offset = SectionOffset(offset);
            return Err(Error::OutOfBounds { part, offset, size, section: bytes.len() });
        };
        let (kind, header) = (PageKind::read(header), CompressedPage::read(header));
        let entries_off = offset + usize::from(header.entries_off);
        let count = u32::from(header.entries_count);
        let entries = match PageKind::from_number(kind) {
            Some(PageKind::Compressed) => {
                let local_off = offset + usize::from(header.encodings_off);
                let local_count = header.encodings_count.into();
                Items::Compressed {
                    entries: array(bytes, Part::Entries, entries_off, count)?,
                    local_off,
                    local: array(bytes, Part::LocalEncodings, local_off, local_count)?,
                }
            }
            Some(PageKind::Regular) => Items::Regular(array(bytes, Part::Entries, entries_off, count)?),
            None => return Err(Error::PageKind { offset: SectionOffset(offset), kind }),
        };
        let (base, end) = (this.function, next.function);
        let is_last = number.to_usize() + 2 == section.index.len();
        Ok(Self { common: section.common, number, offset, base, end, is_last, entries_off, entries })
    }

    /// Returns the number of the page, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the offset of the page in the section.
    pub fn offset(&self) -> SectionOffset {
        SectionOffset(self.offset)
    }

    /// Returns the page's first function, according to the index. Compressed entries are relative to it.
    pub fn base(&self) -> ImageOffset {
        self.base
    }

    /// Returns the end of the page's last entry: the next page's first function, or the sentinel's function.
    pub fn end(&self) -> ImageOffset {
        self.end
    }

    /// Returns the kind of the page: regular or compressed.
    pub fn kind(&self) -> PageKind {
        match self.entries {
            Items::Regular(_) => PageKind::Regular,
            Items::Compressed { .. } => PageKind::Compressed,
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match self.entries {
            Items::Regular(entries) => entries.len(),
            Items::Compressed { entries, .. } => entries.len(),
        }
    }

    /// Returns whether the page has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the page's own encodings. A regular page has none.
    pub fn local_encodings(&self) -> impl ExactSizeIterator<Item = Encoding> + use<'a> {
        let local = match self.entries {
            Items::Regular(_) => &[],
            Items::Compressed { local, .. } => local,
        };
        local.iter().map(|b| Encoding(u32::from_le_bytes(*b)))
    }

    /// Returns an entry of a compressed page as stored, or `None` in a regular page and after the last entry.
    pub fn compressed_entry(&self, i: usize) -> Option<CompressedEntry> {
        match self.entries {
            Items::Regular(_) => None,
            Items::Compressed { entries, .. } => entries.get(i).map(CompressedEntry::read),
        }
    }

    /// Returns the function and the encoding of the entry with this number, or `None` after the last entry. The
    /// order of the functions is not checked.
    ///
    /// # Errors
    /// The function lies beyond 32 bits, or the entry names an encoding that does not exist.
    pub fn stored_entry(&self, i: usize) -> Option<Result<RegularEntry, Error>> {
        match self.entries {
            Items::Regular(entries) => entries.get(i).map(|b| Ok(RegularEntry::read(b))),
            Items::Compressed { entries, local, .. } => {
                let entry = CompressedEntry::read(entries.get(i)?);
                Some(self.decompress(i, entry, local))
            }
        }
    }

    /// Returns the entry with this number, or `None` after the last entry. It ends at the start of the next
    /// entry, or at the end of the page if that is earlier.
    ///
    /// # Errors
    /// The errors of [`Page::stored_entry`] for this entry, and for the next entry's function. Also: the
    /// functions are out of order, or start after the end of the page.
    pub fn entry(&self, i: usize) -> Option<Result<Entry, Error>> {
        let stored = match self.stored_entry(i)? {
            Ok(stored) => stored,
            Err(error) => return Some(Err(error)),
        };
        let (start, offset) = (stored.function, self.entry_offset(i));
        Some(match self.function(i + 1) {
            Ok(_) if self.is_last && start >= self.base && self.is_lost(&stored) => {
                Err(Error::AfterSentinel { offset, function: start, sentinel: self.end })
            }
            Ok(end) if start < self.base || end.min(self.end) < start => {
                Err(Error::EntryUnsorted { offset, function: start })
            }
            Ok(end) => {
                Ok(Entry { start, end: end.min(self.end), encoding: stored.encoding, page: self.number })
            }
            Err(error) => Err(error),
        })
    }

    /// Returns whether an entry of the last page lies where no reader looks for it, because it starts at the sentinel or
    /// after it. An entry without unwind information at the sentinel loses nothing: ld64.lld ends tables with it.
    fn is_lost(&self, entry: &RegularEntry) -> bool {
        entry.function > self.end || (entry.function == self.end && entry.encoding.mode_number() != 0)
    }

    /// Returns the entry for `pc`: the last entry that starts at or below `pc`.
    pub(super) fn lookup(&self, pc: ImageOffset) -> Result<Option<Entry>, Error> {
        let after = match self.entries {
            Items::Regular(entries) => entries.partition_point(|b| RegularEntry::read(b).function <= pc),
            Items::Compressed { entries, .. } => {
                let delta = pc.0.saturating_sub(self.base.0);
                entries.partition_point(|b| CompressedEntry::read(b).function_off() <= delta)
            }
        };
        let Some(i) = after.checked_sub(1) else { return Ok(None) };
        match self.entry(i).transpose()? {
            Some(entry) if pc < entry.start || entry.end <= pc => {
                Err(Error::EntryUnsorted { offset: self.entry_offset(i), function: entry.start })
            }
            found => Ok(found),
        }
    }

    /// Returns the offset of an entry in the section.
    pub fn entry_offset(&self, i: usize) -> SectionOffset {
        let size = match self.entries {
            Items::Regular(_) => RegularEntry::SIZE,
            Items::Compressed { .. } => CompressedEntry::SIZE,
        };
        SectionOffset(self.entries_off + i * size)
    }

    /// Returns the end of the page's header and arrays, as an offset in the section.
    pub(super) fn bytes_end(&self) -> usize {
        let end = match self.entries {
            Items::Regular(entries) => self.entries_off + size_of_val(entries),
            Items::Compressed { entries, local_off, local } => {
                (self.entries_off + size_of_val(entries)).max(local_off + size_of_val(local))
            }
        };
        end.max(self.offset + RegularPage::SIZE)
    }

    /// Returns the function of entry `i`, or the end of the page after the last entry.
    fn function(&self, i: usize) -> Result<ImageOffset, Error> {
        match self.entries {
            Items::Regular(entries) => {
                Ok(entries.get(i).map_or(self.end, |b| RegularEntry::read(b).function))
            }
            Items::Compressed { entries, .. } => match entries.get(i) {
                Some(b) => self.compressed_function(i, CompressedEntry::read(b)),
                None => Ok(self.end),
            },
        }
    }

    fn compressed_function(&self, i: usize, entry: CompressedEntry) -> Result<ImageOffset, Error> {
        match self.base.0.checked_add(entry.function_off()) {
            Some(function) => Ok(ImageOffset(function)),
            None => {
                let offset = self.entry_offset(i);
                Err(Error::Function { offset, entry: entry.0, base: self.base })
            }
        }
    }

    fn decompress(
        &self,
        i: usize,
        entry: CompressedEntry,
        local: &[[u8; ENCODING_SIZE]],
    ) -> Result<RegularEntry, Error> {
        let function = self.compressed_function(i, entry)?;
        let index = entry.encoding_index();
        let Some(b) = self.common.iter().chain(local).nth(index.into()) else {
            let count = (self.common.len() + local.len()).to_u64();
            return Err(Error::EncodingIndex { offset: self.entry_offset(i), index, count });
        };
        Ok(RegularEntry { function, encoding: Encoding(u32::from_le_bytes(*b)) })
    }
}
