//! Fills pages from the end of the table to its start, as ld64 does.
//!
//! The last page gets the size that `__eh_frame` leaves of a 4096-byte page. Each page takes entries from the highest
//! address downwards, and its own palette has the encodings in this order.
//!
//! Since version 264.3 ld64 checks too late whether there is room. When an entry does not fit any more, its encoding
//! and the encoding of the entry after it are in the page's palette already. They stay there, although nothing refers
//! to them, and a page may end 4 bytes after its size. Versions up to 253.3 check earlier, and ask for a word more
//! than they need.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, MAX_ENCODINGS, PageKind, RegularEntry, RegularPage,
};
use cfipack_format::widen::ToUsize;

use super::dedup_entries::DedupedEntries;
use super::split::{PAGE_SIZE, Page};

/// The farthest that the first entry of a compressed page may lie before its last entry, in bytes. Ld64 leaves room
/// because code may still move apart afterwards.
const MAX_DISTANCE: u32 = 0xff_ff00;

/// The last page is never smaller than this number of bytes.
const LEAST_PAGE_SIZE: usize = 128;

/// Marks an encoding of the common palette in `named`. Other encodings have the stamp of the last page that has them.
const COMMON: u32 = u32::MAX;

/// How a version of ld64 checks whether a page is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// The check comes before an entry is counted. If the last entry was one too many, it is removed when the next
    /// entry comes.
    AskedLate,
    /// The check includes the entry, and asks for one word more than needed.
    LessAWord,
}

/// Fills pages for an image with an `__eh_frame` of `eh_frame_len` bytes.
pub(super) fn backward(table: &DedupedEntries, common: &[u32], eh_frame_len: u32, room: Room) -> Vec<Page> {
    let mut named = vec![0; table.encodings.len()];
    for &number in common {
        named[number.to_usize()] = COMMON;
    }
    let max_distance = table.max_offset(MAX_DISTANCE);
    let mut filler = Filler { table, common: common.len(), named, stamp: 0, max_distance, room };
    let mut page_size = PAGE_SIZE - eh_frame_len.to_usize() % PAGE_SIZE;
    if page_size < LEAST_PAGE_SIZE {
        page_size = PAGE_SIZE;
    }
    let mut pages: Vec<Page> = Vec::new();
    let mut end = table.keys.len();
    while end > 0 {
        let mut page = filler.compressed(end, page_size).unwrap_or_else(|| regular(end, page_size));
        if page_size != PAGE_SIZE && page.first > 0 {
            // The other pages end where the last 4096 bytes of the table begin.
            page_size = PAGE_SIZE;
            page.before = (PAGE_SIZE - page.size() - usize::from(page.padding)) as u16;
        }
        end = page.first.to_usize();
        pages.push(page);
    }
    pages.reverse();
    pages
}

/// Makes the regular page that ends before the key `end`.
fn regular(end: usize, page_size: usize) -> Page {
    let count = regular_entries(page_size).min(end);
    Page::new(PageKind::Regular, (end - count) as u32, count as u16, 0)
}

/// Returns the number of entries in a full regular page.
fn regular_entries(page_size: usize) -> usize {
    (page_size - RegularPage::SIZE) / RegularEntry::SIZE
}

struct Filler<'a> {
    table: &'a DedupedEntries,
    /// The number of encodings in the common palette.
    common: usize,
    named: Vec<u32>,
    stamp: u32,
    max_distance: u32,
    room: Room,
}

impl Filler<'_> {
    /// Makes the compressed page that ends before the key `end`, or returns `None` if ld64 makes a regular page here.
    fn compressed(&mut self, end: usize, page_size: usize) -> Option<Page> {
        self.stamp += 1;
        let words = (page_size - CompressedPage::SIZE) / CompressedEntry::SIZE;
        let keys = &self.table.keys[..end];
        let last = keys[end - 1].function;
        let (mut count, mut locals, mut is_full) = (0, 0, false);
        let mut rest = keys;
        while !is_full && let Some((key, before)) = rest.split_last() {
            rest = before;
            let named = &mut self.named[key.encoding.to_usize()];
            if *named != COMMON && *named != self.stamp {
                if self.common + locals < MAX_ENCODINGS {
                    *named = self.stamp;
                    locals += 1;
                } else {
                    is_full = true;
                }
            }
            is_full |= last - key.function > self.max_distance;
            match self.room {
                // This checks the entries so far. If the last of them is one too many, it is removed.
                Room::AskedLate if locals + count > words => {
                    is_full = true;
                    count -= 1;
                }
                Room::AskedLate => {}
                Room::LessAWord => is_full |= locals + count + 1 >= words,
            }
            count += usize::from(!is_full);
        }
        let used = CompressedPage::SIZE + CompressedEntry::SIZE * (count + locals);
        let is_short = used + CompressedEntry::SIZE < page_size && !rest.is_empty();
        if is_short && count < regular_entries(page_size) {
            return None;
        }
        // There is room for half of an entry that brings a new encoding.
        let padding = if used + CompressedEntry::SIZE == page_size { CompressedEntry::SIZE } else { 0 };
        let page = Page::new(PageKind::Compressed, (end - count) as u32, count as u16, locals as u16);
        Some(Page { padding: padding as u16, ..page })
    }
}
