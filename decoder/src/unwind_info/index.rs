//! The index of pages, and the LSDA index.

use cfipack_format::unwind_info::{IndexEntry, LsdaEntry};
use cfipack_format::widen::ToUsize;
use cfipack_format::{ImageOffset, SectionOffset};

use super::{Entry, Error, Page, Part, Section, array};

impl<'a> Section<'a> {
    /// Returns the index. It has at least one entry, and the last entry is the sentinel.
    pub fn index(&self) -> impl ExactSizeIterator<Item = IndexEntry> + use<'a> {
        self.index.iter().map(IndexEntry::read)
    }

    /// Returns the number of pages.
    pub fn num_pages(&self) -> usize {
        self.index.len() - 1
    }

    /// Returns the page with this number, counted from 0, or `None` after the last page.
    ///
    /// # Errors
    /// The index entry names no page, or the page is broken.
    pub fn page(&self, number: usize) -> Option<Result<Page<'a>, Error>> {
        let this = IndexEntry::read(self.index.get(number)?);
        let next = IndexEntry::read(self.index.get(number + 1)?);
        Some(Page::parse(self, number as u32, this, next))
    }

    /// Returns the LSDA of an entry, or `None` if the encoding does not have the LSDA flag.
    ///
    /// # Errors
    /// The page's part of the LSDA index is broken, or has no LSDA for the start of the entry.
    pub fn lsda(&self, entry: &Entry) -> Result<Option<ImageOffset>, Error> {
        if !entry.encoding.has_lsda() {
            return Ok(None);
        }
        let (offset, lsdas) = self.page_lsdas(entry.page.to_usize())?;
        let after = lsdas.partition_point(|b| LsdaEntry::read(b).function <= entry.start);
        match lsdas.get(after.wrapping_sub(1)).map(LsdaEntry::read) {
            Some(found) if found.function == entry.start => Ok(Some(found.lsda)),
            _ => Err(Error::NoLsda { offset, function: entry.start }),
        }
    }

    /// Returns a page's part of the LSDA index. It is empty if there is no page with this number.
    ///
    /// # Errors
    /// The part ends before it starts, or lies outside the section.
    pub fn lsdas(&self, page: usize) -> Result<impl ExactSizeIterator<Item = LsdaEntry> + use<'a>, Error> {
        self.page_lsdas(page).map(|(_, lsdas)| lsdas.iter().map(LsdaEntry::read))
    }

    /// Returns the whole LSDA index.
    ///
    /// # Errors
    /// The LSDA index ends before it starts, or lies outside the section.
    pub fn all_lsdas(&self) -> Result<impl ExactSizeIterator<Item = LsdaEntry> + use<'a>, Error> {
        self.lsda_range(0, self.num_pages()).map(|(_, lsdas)| lsdas.iter().map(LsdaEntry::read))
    }

    fn page_lsdas(&self, page: usize) -> Result<(SectionOffset, &'a [[u8; LsdaEntry::SIZE]]), Error> {
        self.lsda_range(page, page + 1)
    }

    /// Returns the LSDA index between two index entries, and its offset.
    fn lsda_range(
        &self,
        from: usize,
        to: usize,
    ) -> Result<(SectionOffset, &'a [[u8; LsdaEntry::SIZE]]), Error> {
        let (Some(this), Some(next)) = (self.index.get(from), self.index.get(to)) else {
            return Ok((SectionOffset(0), &[]));
        };
        let (start, end) = (IndexEntry::read(this).lsda_off, IndexEntry::read(next).lsda_off);
        let Some(size) = end.checked_sub(start).filter(|size| size % LsdaEntry::SIZE as u32 == 0) else {
            let offset = self.index_entry_offset(from, 8);
            return Err(Error::LsdaRange { offset, start, end });
        };
        let count = size / LsdaEntry::SIZE as u32;
        Ok((SectionOffset(start.to_usize()), array(self.bytes, Part::LsdaIndex, start.to_usize(), count)?))
    }

    /// Returns the offset of a field of an index entry.
    pub(super) fn index_entry_offset(&self, number: usize, field: usize) -> SectionOffset {
        SectionOffset(self.header.index_off.to_usize() + number * IndexEntry::SIZE + field)
    }
}
