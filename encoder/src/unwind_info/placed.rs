//! A section with addresses: its size is final, and it can be written.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::unwind_info::{
    ENCODING_SIZE, Header, IndexEntry, LsdaEntry, PERSONALITY_SIZE, PageKind, VERSION,
};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, ImageOffset};

use super::dedup_entries::DedupedEntries;
use super::error::WriteError;
use super::min_pages::Partition;
use super::options::Layout;
use super::page::{EncodingIndices, write_backward, write_compressed, write_regular};
use super::split::{PAGE_SIZE, Page, REGULAR_ENTRIES};

/// A table with its addresses. You get it from [`Section::place`](super::Section::place). Its size is exact.
#[derive(Debug)]
pub struct Placed {
    table: DedupedEntries,
    /// The common palette, as numbers of encodings.
    common: Vec<u32>,
    pages: Vec<Page>,
    arch: Arch,
    layout: Layout,
    /// How many index entries have room.
    index_slots: usize,
    len: usize,
}

impl Placed {
    pub(super) fn new(
        table: DedupedEntries,
        partition: Partition,
        arch: Arch,
        layout: Layout,
    ) -> Result<Self, WriteError> {
        let Partition { common, pages, .. } = partition;
        let index_slots = match layout {
            // The linker reserves room for an index of only regular pages, and for one more entry.
            Layout::LdPrime | Layout::LdPrime27 => table.keys.len().div_ceil(REGULAR_ENTRIES) + 2,
            Layout::Small | Layout::Lld | Layout::Ld64 | Layout::Ld64V253 | Layout::Zig => pages.len() + 1,
        };
        let mut placed = Self { table, common, pages, arch, layout, index_slots, len: 0 };
        if placed.pages.is_empty() {
            return Ok(placed);
        }
        let mut end = placed.pages_off();
        for page in &placed.pages {
            end = placed.page_end(end + usize::from(page.before), page);
        }
        if u32::try_from(end).is_err() {
            return Err(WriteError::TooLarge { size: end.to_u64() });
        }
        placed.len = end;
        Ok(placed)
    }

    /// Returns the size of the table in bytes. It is 0 if the image gets no section: because no entry has unwind
    /// information, or, in the layouts of Apple's linkers, because there is no entry.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the image gets no section.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the table into `out`, little-endian. The length of `out` must be [`len`](Self::len).
    ///
    /// The closure `slot_of` returns the image offset of the pointer slot (in `__got`) that holds the address of a
    /// personality. It is called once for each personality of the table, at most three times.
    ///
    /// # Errors
    /// This function returns [`WriteError::OutputLength`] if `out` has another length.
    pub fn write(
        &self,
        out: &mut [u8],
        mut slot_of: impl FnMut(NonZeroU32) -> ImageOffset,
    ) -> Result<(), WriteError> {
        if out.len() != self.len {
            return Err(WriteError::OutputLength { given: out.len(), needed: self.len });
        }
        if self.len == 0 {
            return Ok(());
        }
        let (head, pages) = out.split_at_mut(self.pages_off());
        head.fill(0);
        head[..Header::SIZE].copy_from_slice(&self.header().write());
        let common = self.common.iter().map(|&number| self.table.encodings[number.to_usize()].0);
        let personalities = self.table.personalities.iter().map(|&personality| slot_of(personality).0);
        put_words(&mut head[Header::SIZE..], common.chain(personalities));
        self.write_index(&mut head[self.index_off()..]);
        let lsdas = head[self.lsdas_off()..].chunks_exact_mut(LsdaEntry::SIZE);
        for (bytes, lsda) in lsdas.zip(&self.table.lsdas) {
            bytes.copy_from_slice(&lsda.write());
        }
        self.write_pages(pages);
        Ok(())
    }

    /// Returns the table's bytes. See [`write`](Self::write) for `slot_of`.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub fn into_bytes(self, slot_of: impl FnMut(NonZeroU32) -> ImageOffset) -> Result<Vec<u8>, WriteError> {
        let mut bytes = vec![0; self.len];
        self.write(&mut bytes, slot_of)?;
        Ok(bytes)
    }

    fn header(&self) -> Header {
        Header {
            version: VERSION,
            common_off: Header::SIZE as u32,
            common_count: self.common.len() as u32,
            personalities_off: self.personalities_off() as u32,
            personalities_count: self.table.personalities.len() as u32,
            index_off: self.index_off() as u32,
            index_count: self.pages.len() as u32 + 1,
        }
    }

    fn personalities_off(&self) -> usize {
        Header::SIZE + ENCODING_SIZE * self.common.len()
    }

    fn index_off(&self) -> usize {
        self.personalities_off() + PERSONALITY_SIZE * self.table.personalities.len()
    }

    fn lsdas_off(&self) -> usize {
        self.index_off() + IndexEntry::SIZE * self.index_slots
    }

    pub(super) fn pages_off(&self) -> usize {
        self.lsdas_off() + LsdaEntry::SIZE * self.table.lsdas.len()
    }

    /// Returns where a page ends that begins at `start`, including its padding.
    fn page_end(&self, start: usize, page: &Page) -> usize {
        match self.layout {
            Layout::Small => start + page.size(),
            Layout::Lld | Layout::Zig => start + PAGE_SIZE,
            Layout::LdPrime | Layout::LdPrime27 => (start + page.size()).next_multiple_of(8),
            Layout::Ld64 | Layout::Ld64V253 => start + page.size() + usize::from(page.padding),
        }
    }

    fn write_index(&self, out: &mut [u8]) {
        let mut slots = out.chunks_exact_mut(IndexEntry::SIZE);
        let mut put = |entry: IndexEntry| {
            if let Some(slot) = slots.next() {
                slot.copy_from_slice(&entry.write());
            }
        };
        let lsda_off = |before: usize| (self.lsdas_off() + LsdaEntry::SIZE * before) as u32;
        let mut page_off = self.pages_off();
        let mut before = 0;
        for page in &self.pages {
            let function = ImageOffset(self.table.keys[page.first.to_usize()].function);
            page_off += usize::from(page.before);
            before += self.table.lsdas[before..].partition_point(|lsda| lsda.function < function);
            put(IndexEntry { function, page_off: page_off as u32, lsda_off: lsda_off(before) });
            page_off = self.page_end(page_off, page);
        }
        let function = ImageOffset(self.table.end);
        put(IndexEntry { function, page_off: 0, lsda_off: lsda_off(self.table.lsdas.len()) });
    }

    fn write_pages(&self, mut out: &mut [u8]) {
        let encodings = &self.table.encodings[..];
        let habits = self.layout.habits();
        let mut indices = EncodingIndices::new(encodings.len(), &self.common);
        for page in &self.pages {
            let (hole, rest) = out.split_at_mut(page.before.into());
            hole.fill(0);
            let start = self.len - rest.len();
            let bytes;
            (bytes, out) = rest.split_at_mut(self.page_end(start, page) - start);
            let keys = &self.table.keys[page.first.to_usize()..][..usize::from(page.count)];
            let used = match page.kind {
                PageKind::Regular => write_regular(bytes, keys, encodings),
                PageKind::Compressed if habits.fills_from_the_end => {
                    write_backward(bytes, &self.table, self.arch, page, &mut indices)
                }
                PageKind::Compressed => {
                    write_compressed(bytes, keys, page.locals, encodings, &mut indices, habits.palette_first)
                }
            };
            bytes[used..].fill(0);
        }
    }
}

/// Writes words one after the other, as many as there are.
fn put_words(out: &mut [u8], words: impl Iterator<Item = u32>) {
    for (bytes, word) in out.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
