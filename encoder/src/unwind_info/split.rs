//! Fills pages from the start of the table to its end, as ld64.lld and Apple's linker do.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, MAX_ENCODINGS, PageKind, RegularEntry, RegularPage,
};
use cfipack_format::widen::ToUsize;

use super::dedup_entries::DedupedEntries;

/// The most bytes of a page.
pub(super) const PAGE_SIZE: usize = 4096;

/// The words in a compressed page. Each entry, and each encoding in the page's own palette, takes one word.
pub(super) const WORDS: usize = (PAGE_SIZE - CompressedPage::SIZE) / CompressedEntry::SIZE;

/// The number of entries in a full regular page.
pub(super) const REGULAR_ENTRIES: usize = (PAGE_SIZE - RegularPage::SIZE) / RegularEntry::SIZE;

/// A page: its kind and its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) kind: PageKind,
    /// The index of the first key.
    pub(super) first: u32,
    /// The number of keys.
    pub(super) count: u16,
    /// The number of encodings in the page's own palette.
    pub(super) locals: u16,
    /// Unused bytes before and after the page. Padding that follows from the page's position is not included.
    pub(super) before: u16,
    pub(super) padding: u16,
}

impl Page {
    /// Makes a page without unused bytes around it.
    pub(super) const fn new(kind: PageKind, first: u32, count: u16, locals: u16) -> Self {
        Self { kind, first, count, locals, before: 0, padding: 0 }
    }

    /// Returns the size in bytes, without padding.
    pub(super) fn size(&self) -> usize {
        let (entries, locals) = (usize::from(self.count), usize::from(self.locals));
        match self.kind {
            PageKind::Compressed => {
                CompressedPage::SIZE + CompressedEntry::SIZE * entries + ENCODING_SIZE * locals
            }
            PageKind::Regular => RegularPage::SIZE + RegularEntry::SIZE * entries,
        }
    }
}

/// Marks an encoding of the common palette in `named`. Other encodings have the stamp of the last page that has them.
const COMMON: u32 = u32::MAX;

/// Fills pages. The linker allows offsets up to `max_offset` in a compressed page.
pub(super) fn forward(table: &DedupedEntries, common: &[u32], max_offset: u32) -> Vec<Page> {
    let keys = &table.keys[..];
    let mut named = vec![0_u32; table.encodings.len()];
    for &number in common {
        named[number.to_usize()] = COMMON;
    }
    let mut pages = Vec::new();
    let mut first = 0;
    while first < keys.len() {
        let stamp = pages.len() as u32 + 1;
        let limit = keys[first].function.saturating_add(table.max_offset(max_offset));
        let (mut words, mut locals, mut at) = (WORDS, 0, first);
        while let Some(key) = keys.get(at).filter(|key| words > 0 && key.function <= limit) {
            let named = &mut named[key.encoding.to_usize()];
            if *named != COMMON && *named != stamp {
                if words < 2 || common.len() + locals == MAX_ENCODINGS {
                    break;
                }
                *named = stamp;
                locals += 1;
                words -= 1;
            }
            words -= 1;
            at += 1;
        }
        let mut kind = PageKind::Compressed;
        if at < keys.len() && at - first < REGULAR_ENTRIES {
            kind = PageKind::Regular;
            locals = 0;
            at = keys.len().min(first + REGULAR_ENTRIES);
        }
        pages.push(Page::new(kind, first as u32, (at - first) as u16, locals as u16));
        first = at;
    }
    pages
}
