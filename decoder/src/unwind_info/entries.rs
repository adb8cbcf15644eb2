//! Iterators over all pages and all entries of a table.

use cfipack_format::SectionOffset;

use super::{Entry, Error, Page, Section};

/// An iterator over all pages, in the order of the index. A broken page is an `Err` item.
///
/// Every known linker places pages one after the other. This iterator refuses a page that overlaps an earlier
/// page, so a table never has more entries than fit into its bytes.
#[derive(Clone, Debug)]
pub struct Pages<'a> {
    section: Section<'a>,
    next: usize,
    /// The end of the pages so far.
    end: usize,
}

/// An iterator over all entries, page by page. A broken page is a single `Err` item in place of its entries,
/// and a broken entry is an `Err` item too.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    pages: Pages<'a>,
    page: Option<Page<'a>>,
    next: usize,
}

impl<'a> Section<'a> {
    /// Returns all pages, in the order of the index.
    pub fn pages(&self) -> Pages<'a> {
        Pages { section: *self, next: 0, end: 0 }
    }

    /// Returns all entries, in the order of the table.
    pub fn entries(&self) -> Entries<'a> {
        Entries { pages: self.pages(), page: None, next: 0 }
    }
}

impl<'a> Iterator for Pages<'a> {
    type Item = Result<Page<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.next;
        let page = self.section.page(number)?;
        self.next += 1;
        Some(page.and_then(|page| {
            if page.offset().0 < self.end {
                let offset = self.section.index_entry_offset(number, 4);
                return Err(Error::PageOverlap { offset, page: page.offset(), end: SectionOffset(self.end) });
            }
            self.end = page.bytes_end();
            Ok(page)
        }))
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.and_then(|page| page.entry(self.next)) {
                self.next += 1;
                return Some(entry);
            }
            self.next = 0;
            self.page = None;
            match self.pages.next()? {
                Ok(page) => self.page = Some(page),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
