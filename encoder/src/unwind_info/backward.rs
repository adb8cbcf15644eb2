//! Pages, filled one after the other from the end of the table, as ld64 does.
//!
//! The last page is made as large as the part of a 4096-byte page that `__eh_frame` leaves. Every
//! page takes entries from the highest address down, and the encodings in its own palette are in
//! this order. Since 264.3 room is asked for too late: an entry that no longer fits has brought its encoding
//! into the palette already, and the one after it too, where they stay with nothing that refers to
//! them; and a page may end 4 bytes after the size it should have. Versions up to 253.3 ask before, for a word more
//! than they need.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, MAX_ENCODINGS, PageKind, RegularEntry, RegularPage,
};
use cfipack_format::widen::ToUsize;

use super::dedup_entries::DedupedEntries;
use super::split::{PAGE_SIZE, Page};

/// The farthest that the first entry of a compressed page may lie before the last one: ld64 leaves room for
/// code that moves apart afterwards.
const MAX_DISTANCE: u32 = 0xff_ff00;

/// No last page is smaller.
const LEAST_PAGE_SIZE: usize = 128;

/// The encodings that a page already names, by number: the page's stamp, or `COMMON`.
const COMMON: u32 = u32::MAX;

/// The test that ends a page for want of room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// Before an entry is counted: the one that was too many is taken back at the next one.
    AskedLate,
    /// With the entry counted, for a word more than it needs.
    LessAWord,
}

/// Fills pages for an image whose `__eh_frame` has so many bytes.
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
            // The other pages end where the last 4096 bytes begin.
            page_size = PAGE_SIZE;
            page.before = (PAGE_SIZE - page.size() - usize::from(page.padding)) as u16;
        }
        end = page.first.to_usize();
        pages.push(page);
    }
    pages.reverse();
    pages
}

/// The regular page that ends before a key.
fn regular(end: usize, page_size: usize) -> Page {
    let count = regular_entries(page_size).min(end);
    Page::new(PageKind::Regular, (end - count) as u32, count as u16, 0)
}

/// Entries of a full regular page.
fn regular_entries(page_size: usize) -> usize {
    (page_size - RegularPage::SIZE) / RegularEntry::SIZE
}

struct Filler<'a> {
    table: &'a DedupedEntries,
    /// Encodings in the common palette.
    common: usize,
    named: Vec<u32>,
    stamp: u32,
    max_distance: u32,
    room: Room,
}

impl Filler<'_> {
    /// The compressed page that ends before a key, `None` where ld64 makes a regular one.
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
                // Of the entries before: the last of them is taken back where it was one too many.
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
        // The room for half an entry with an encoding of its own.
        let padding = if used + CompressedEntry::SIZE == page_size { CompressedEntry::SIZE } else { 0 };
        let page = Page::new(PageKind::Compressed, (end - count) as u32, count as u16, locals as u16);
        Some(Page { padding: padding as u16, ..page })
    }
}
