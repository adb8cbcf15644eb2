//! Fills pages for a given palette, wherever the functions lie. They keep the promised size of a table.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::unwind_info::{MAX_COMPRESSED_OFFSET, MAX_ENCODINGS, PageKind};
use cfipack_format::widen::ToUsize;

use super::dedup_entries::{DedupedEntries, Key};
use super::min_pages::Partition;
use super::split::{Page, REGULAR_ENTRIES, WORDS};

/// A run of keys that should become a single page. If it is too long, it becomes several pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The first key. The run ends where the next run starts.
    pub(super) first: usize,
    pub(super) kind: PageKind,
}

/// Fills the pages of each run as far as possible. The first run must start with the first key, and the runs must
/// ascend.
pub(super) fn fill(table: &DedupedEntries, common: Vec<u32>, runs: &[Run]) -> Partition {
    let mut filler = Filler { table, named: vec![0; table.encodings.len()], room: 0, pages: Vec::new() };
    filler.room = MAX_ENCODINGS - common.len();
    for &number in &common {
        filler.named[number.to_usize()] = COMMON;
    }
    for (at, run) in runs.iter().enumerate() {
        let end = runs.get(at + 1).map_or(table.keys.len(), |next| next.first);
        let mut first = run.first;
        while first < end {
            let page = match run.kind {
                PageKind::Compressed => filler.compressed(first, end),
                PageKind::Regular => {
                    let count = REGULAR_ENTRIES.min(end - first);
                    Page::new(PageKind::Regular, first as u32, count as u16, 0)
                }
            };
            first += usize::from(page.count);
            filler.pages.push(page);
        }
    }
    Partition { common, pages: filler.pages, exact: false }
}

/// Marks an encoding of the common palette.
const COMMON: u32 = u32::MAX;

struct Filler<'a> {
    table: &'a DedupedEntries,
    /// For each encoding, by number: the last page that has it, counted from 1, or `COMMON`.
    named: Vec<u32>,
    /// The most encodings in the page's own palette.
    room: usize,
    pages: Vec<Page>,
}

impl Filler<'_> {
    /// Makes the longest compressed page that starts at a key.
    fn compressed(&mut self, first: usize, end: usize) -> Page {
        let page = self.pages.len() as u32 + 1;
        let keys: &[Key] = &self.table.keys[first..end];
        let limit = keys[0].function.saturating_add(self.table.max_offset(MAX_COMPRESSED_OFFSET));
        let (mut words, mut locals, mut count) = (WORDS, 0, 0);
        for key in keys {
            let named = &mut self.named[key.encoding.to_usize()];
            let is_new = *named != COMMON && *named != page;
            let needed = 1 + usize::from(is_new);
            if words < needed || (is_new && locals == self.room) || key.function > limit {
                break;
            }
            if is_new {
                *named = page;
                locals += 1;
            }
            words -= needed;
            count += 1;
        }
        Page::new(PageKind::Compressed, first as u32, count, locals as u16)
    }
}
