//! All pages and all entries of a table, in its order.

use cfipack_format::SectionOffset;

use super::{Entry, Error, Page, Section};

/// Iterator over all pages, in the order of the index. A broken page gives an error.
///
/// Every known writer lays pages out one after the other. A page that reaches back into one
/// before it is refused, so that a table never has more entries than its bytes can hold.
#[derive(Clone, Debug)]
pub struct Pages<'a> {
    section: Section<'a>,
    next: usize,
    /// The end of the pages so far.
    end: usize,
}

/// Iterator over all entries, page by page. A broken page gives one error, in the place of its
/// entries; a broken entry gives one in its own.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    pages: Pages<'a>,
    page: Option<Page<'a>>,
    next: usize,
}

impl<'a> Section<'a> {
    /// All pages, in the order of the index.
    pub fn pages(&self) -> Pages<'a> {
        Pages { section: *self, next: 0, end: 0 }
    }

    /// All entries, in the order of the table.
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
