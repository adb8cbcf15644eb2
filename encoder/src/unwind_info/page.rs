//! Writes the pages of the second level.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::compact_unwind::{DWARF_OFFSET_MAX, Encoding};
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, RegularEntry, RegularPage,
};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, ImageOffset};

use super::dedup_entries::{DedupedEntries, Key};
use super::entry::is_dwarf;
use super::split::Page;

/// Writes a regular page, and returns its size in bytes.
pub(super) fn write_regular(out: &mut [u8], keys: &[Key], encodings: &[Encoding]) -> usize {
    let header = RegularPage { entries_off: RegularPage::SIZE as u16, entries_count: keys.len() as u16 };
    out[..RegularPage::SIZE].copy_from_slice(&header.write());
    let slots = out[RegularPage::SIZE..].chunks_exact_mut(RegularEntry::SIZE);
    for (bytes, key) in slots.zip(keys) {
        let encoding = encodings[key.encoding.to_usize()];
        let entry = RegularEntry { function: ImageOffset(key.function), encoding };
        bytes.copy_from_slice(&entry.write());
    }
    RegularPage::SIZE + RegularEntry::SIZE * keys.len()
}

/// Writes a compressed page, and returns its size in bytes. Its own palette has the encodings in the order of first
/// use. `palette_first` is true if the palette comes before the entries.
pub(super) fn write_compressed(
    out: &mut [u8],
    keys: &[Key],
    locals: u16,
    encodings: &[Encoding],
    indices: &mut EncodingIndices,
    palette_first: bool,
) -> usize {
    let (entries, own) = write_header(out, keys.len(), locals, palette_first);
    let mut own = own.chunks_exact_mut(ENCODING_SIZE);
    indices.turn_page();
    let base = keys.first().map_or(0, |key| key.function);
    for (bytes, key) in entries.chunks_exact_mut(CompressedEntry::SIZE).zip(keys) {
        let (index, new) = indices.index(key.encoding);
        if new && let Some(slot) = own.next() {
            slot.copy_from_slice(&encodings[key.encoding.to_usize()].0.to_le_bytes());
        }
        // A page always ends before the offset becomes too large.
        if let Some(entry) = CompressedEntry::new(key.function - base, index) {
            bytes.copy_from_slice(&entry.write());
        }
    }
    CompressedPage::SIZE + entries.len() + ENCODING_SIZE * usize::from(locals)
}

/// Writes a page of [`backward`](super::backward::backward), and returns its size in bytes. Its own palette has the
/// encodings in the order of first use from the last entry down. Encodings of the entries before the page may follow.
pub(super) fn write_backward(
    out: &mut [u8],
    table: &DedupedEntries,
    arch: Arch,
    page: &Page,
    indices: &mut EncodingIndices,
) -> usize {
    let first = page.first.to_usize();
    let keys = &table.keys[..first + usize::from(page.count)];
    let (entries, own) = write_header(out, usize::from(page.count), page.locals, false);
    let mut own = own.chunks_exact_mut(ENCODING_SIZE);
    indices.turn_page();
    for (at, key) in keys.iter().enumerate().rev() {
        if own.len() == 0 {
            break;
        }
        if indices.index(key.encoding).1
            && let Some(slot) = own.next()
        {
            let mut encoding = table.encodings[key.encoding.to_usize()];
            if at < first && is_dwarf(encoding, arch) {
                // Ld64 tells such encodings apart by the number of the entry. It only writes the FDE's offset into an
                // encoding that an entry of the page refers to.
                encoding.0 = (encoding.0 & !DWARF_OFFSET_MAX).wrapping_add(at as u32);
            }
            slot.copy_from_slice(&encoding.0.to_le_bytes());
        }
    }
    let base = keys[first].function;
    for (bytes, key) in entries.chunks_exact_mut(CompressedEntry::SIZE).zip(&keys[first..]) {
        if let Some(entry) = CompressedEntry::new(key.function - base, indices.index(key.encoding).0) {
            bytes.copy_from_slice(&entry.write());
        }
    }
    CompressedPage::SIZE + entries.len() + ENCODING_SIZE * usize::from(page.locals)
}

/// Writes the header of a compressed page. Returns the parts for its entries and its palette.
fn write_header(out: &mut [u8], count: usize, locals: u16, palette_first: bool) -> (&mut [u8], &mut [u8]) {
    let (entries, own) = (CompressedEntry::SIZE * count, ENCODING_SIZE * usize::from(locals));
    let first = if palette_first { own } else { entries };
    let second = (CompressedPage::SIZE + first) as u16;
    let starts = [CompressedPage::SIZE as u16, second];
    let [entries_off, encodings_off] = if palette_first { [starts[1], starts[0]] } else { starts };
    let header =
        CompressedPage { entries_off, entries_count: count as u16, encodings_off, encodings_count: locals };
    let (head, rest) = out.split_at_mut(CompressedPage::SIZE);
    head.copy_from_slice(&header.write());
    let (before, after) = rest[..entries + own].split_at_mut(first);
    if palette_first { (after, before) } else { (before, after) }
}

/// The indexes of encodings in the page that is being written.
pub(super) struct EncodingIndices {
    /// For each encoding, by number: its index in the low 8 bits, and the stamp of its page above. Common encodings
    /// have stamp 0.
    indices: Vec<u32>,
    stamp: u32,
    common: u8,
    next: u8,
}

impl EncodingIndices {
    pub(super) fn new(encodings: usize, common: &[u32]) -> Self {
        let mut indices = vec![u32::MAX; encodings];
        for (&number, index) in common.iter().zip(0..) {
            indices[number.to_usize()] = index;
        }
        Self { indices, stamp: 0, common: common.len() as u8, next: 0 }
    }

    fn turn_page(&mut self) {
        self.stamp += 1 << 8;
        self.next = self.common;
    }

    /// Returns the index of an encoding, and whether it is new in this page.
    #[inline]
    fn index(&mut self, number: u32) -> (u8, bool) {
        let index = &mut self.indices[number.to_usize()];
        if *index >> 8 == self.stamp >> 8 || *index < 1 << 8 {
            return (*index as u8, false);
        }
        *index = self.stamp | u32::from(self.next);
        self.next = self.next.wrapping_add(1);
        (*index as u8, true)
    }
}
