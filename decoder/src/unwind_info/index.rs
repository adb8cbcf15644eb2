//! The index of pages, and the LSDA index.

use cfipack_format::unwind_info::{IndexEntry, LsdaEntry};
use cfipack_format::widen::ToUsize;
use cfipack_format::{ImageOffset, SectionOffset};

use super::{Entry, Error, Page, Part, Section, array};

impl<'a> Section<'a> {
    /// The index, its last entry being the sentinel: at least one.
    pub fn index(&self) -> impl ExactSizeIterator<Item = IndexEntry> + use<'a> {
        self.index.iter().map(IndexEntry::read)
    }

    /// Number of pages.
    pub fn num_pages(&self) -> usize {
        self.index.len() - 1
    }

    /// The page with this number; `None` after the last.
    ///
    /// # Errors
    /// The index names no page, or one that is broken.
    pub fn page(&self, number: usize) -> Option<Result<Page<'a>, Error>> {
        let this = IndexEntry::read(self.index.get(number)?);
        let next = IndexEntry::read(self.index.get(number + 1)?);
        Some(Page::parse(self, number as u32, this, next))
    }

    /// The LSDA of an entry; `None` if its encoding lacks the flag.
    ///
    /// # Errors
    /// The page's part of the LSDA index is broken, or has none that starts where the entry does.
    pub fn lsda(&self, entry: &Entry) -> Result<Option<ImageOffset>, Error> {
        if !entry.encoding.has_lsda() {
            return Ok(None);
        }
        let (offset, lsdas) = self.page_lsdas(entry.page.to_usize())?;
        let after = lsdas.partition_point(|b| LsdaEntry::read(b).function <= entry.start);
        let found = after.checked_sub(1).map(|i| LsdaEntry::read(&lsdas[i]));
        match found.filter(|found| found.function == entry.start) {
            Some(found) => Ok(Some(found.lsda)),
            None => Err(Error::NoLsda { offset, function: entry.start }),
        }
    }

    /// A page's part of the LSDA index; nothing for a page that is not there.
    ///
    /// # Errors
    /// It ends before it starts or lies outside of the section.
    pub fn lsdas(&self, page: usize) -> Result<impl ExactSizeIterator<Item = LsdaEntry> + use<'a>, Error> {
        self.page_lsdas(page).map(|(_, lsdas)| lsdas.iter().map(LsdaEntry::read))
    }

    /// The whole LSDA index: from the first page's part to the sentinel.
    ///
    /// # Errors
    /// It ends before it starts or lies outside of the section.
    pub fn all_lsdas(&self) -> Result<impl ExactSizeIterator<Item = LsdaEntry> + use<'a>, Error> {
        self.lsda_range(0, self.num_pages()).map(|(_, lsdas)| lsdas.iter().map(LsdaEntry::read))
    }

    fn page_lsdas(&self, page: usize) -> Result<(SectionOffset, &'a [[u8; LsdaEntry::SIZE]]), Error> {
        self.lsda_range(page, page + 1)
    }

    /// The LSDA index from index entry `from` to index entry `to`, and where it starts.
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

    /// The offset of a field of an index entry.
    pub(super) fn index_entry_offset(&self, number: usize, field: usize) -> SectionOffset {
        SectionOffset(self.header.index_off.to_usize() + number * IndexEntry::SIZE + field)
    }
}
