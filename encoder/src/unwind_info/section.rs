//! The section: its size, and its bytes.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{
    CompressedPage, ENCODING_SIZE, Header, IndexEntry, LsdaEntry, MAX_COMPRESSED_OFFSET, PERSONALITY_SIZE,
    PageKind, RegularEntry, RegularPage, VERSION,
};
use cfipack_format::{Arch, ImageOffset};

use super::fold::{Folded, Key, fold};
use super::palette::MAX_COMMON;
use super::split::{PAGE_SIZE, Page, REGULAR_ENTRIES, forward};
use super::{Entry, Layout, palette, small};

/// A function that the table cannot hold as it was given. The table is right all the same, as
/// long as the function has an FDE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Warning {
    /// Three personalities are used more than this function's: it fell back to DWARF mode.
    FourthPersonality {
        /// The function, as it was pushed.
        function: ImageOffset,
        /// Its personality.
        personality: NonZeroU32,
        /// Its FDE; without one the entry only says that it is in DWARF mode, and the function
        /// can be unwound if `__eh_frame` has an FDE for it nevertheless.
        fde: Option<NonZeroU32>,
    },
    /// The FDE lies beyond the 24 bits that an encoding has for it: readers must search all of
    /// `__eh_frame`.
    FdeOutOfReach {
        /// The function, as it was pushed.
        function: ImageOffset,
        /// Offset of the FDE.
        fde: NonZeroU32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FourthPersonality { function, personality, fde } => {
                write!(f, "function at {function}: three personalities are used more than its own, ")?;
                write!(f, "number {personality}; ")?;
                match fde {
                    Some(fde) => write!(f, "its FDE at {fde:#x} takes over"),
                    None => write!(f, "no FDE is known to take over"),
                }
            }
            Self::FdeOutOfReach { function, fde } => {
                write!(f, "function at {function}: its FDE at {fde:#x} is out of the table's reach; ")?;
                write!(f, "readers have to search for it")
            }
        }
    }
}

/// Why a table was not written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Error {
    /// The table has more bytes than its own 32-bit offsets reach.
    TooLarge {
        /// Bytes it would have.
        size: u64,
    },
    /// The buffer is not as long as [`Placed::len`].
    Buffer {
        /// Bytes of the table.
        size: usize,
        /// Bytes of the buffer.
        buffer: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size } => write!(f, "__unwind_info of {size} bytes is over 4 GiB"),
            Self::Buffer { size, buffer } => {
                write!(f, "__unwind_info has {size} bytes, the buffer for it {buffer}")
            }
        }
    }
}

impl core::error::Error for Error {}

/// A table's entries, settled, before they have their final addresses.
#[derive(Clone, Debug)]
pub struct Section {
    arch: Arch,
    layout: Layout,
    entries: Vec<Entry>,
    personalities: usize,
    warnings: Vec<Warning>,
}

impl Section {
    pub(super) fn new(
        arch: Arch,
        layout: Layout,
        entries: Vec<Entry>,
        personalities: usize,
        warnings: Vec<Warning>,
    ) -> Self {
        Self { arch, layout, entries, personalities, warnings }
    }

    /// What could not be written as it was given.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The most bytes that the table can have, wherever its functions will lie.
    ///
    /// A page that is not the last has at least 511 entries in [`Layout::Lld`] and
    /// [`Layout::LdPrime`], and an entry costs at most 8 bytes; [`Layout::Small`] has no more
    /// bytes than they.
    pub fn max_len(&self) -> usize {
        let entries = self.entries.len();
        let pages = entries.div_ceil(REGULAR_ENTRIES);
        let lsdas = self.entries.iter().filter(|entry| entry.lsda.is_some()).count();
        let fixed = Header::SIZE
            + ENCODING_SIZE * entries.min(MAX_COMMON)
            + PERSONALITY_SIZE * self.personalities
            + IndexEntry::SIZE * (pages + 1)
            + LsdaEntry::SIZE * lsdas;
        let headers = pages * CompressedPage::SIZE;
        fixed
            + match self.layout {
                Layout::Small => RegularEntry::SIZE * entries + headers,
                Layout::Lld => PAGE_SIZE * pages,
                Layout::LdPrime => RegularEntry::SIZE * entries + headers + IndexEntry::SIZE + 4 * pages + 4,
            }
    }

    /// Sorts the entries and cuts them into pages, now that addresses are known: `moved` tells,
    /// for the image offset of a function or an LSDA as it was pushed, where it is now. `end` is
    /// the end of the code that the table speaks for, the end of `__text`; [`Layout::Lld`] does
    /// without, and the others take the end of the last entry if it is not given or lies lower.
    pub fn place(
        &self,
        end: Option<ImageOffset>,
        moved: impl Fn(ImageOffset) -> ImageOffset,
    ) -> Result<Placed, Error> {
        let mut table = fold(&self.entries, self.arch, self.layout, moved);
        if let Some(end) = end
            && self.layout != Layout::Lld
        {
            table.end = table.end.max(end.0);
        }
        let (common, pages) = match self.layout {
            _ if !table.informs => (Vec::new(), Vec::new()),
            Layout::Small => small::choose(&table, self.arch),
            Layout::Lld => {
                let common = palette::lld(&table);
                let pages = forward(&table, &common, MAX_COMPRESSED_OFFSET - 1);
                (common, pages)
            }
            Layout::LdPrime => {
                let common = palette::ld_prime(&table, self.arch);
                let pages = forward(&table, &common, MAX_COMPRESSED_OFFSET);
                (common, pages)
            }
        };
        Placed::new(table, common, pages, self.layout)
    }
}

/// A table with its addresses.
#[derive(Debug)]
pub struct Placed {
    table: Folded,
    /// Numbers of encodings.
    common: Vec<u32>,
    pages: Vec<Page>,
    layout: Layout,
    /// Index entries there is room for.
    index_slots: usize,
    len: usize,
}

impl Placed {
    fn new(table: Folded, common: Vec<u32>, pages: Vec<Page>, layout: Layout) -> Result<Self, Error> {
        let index_slots = match layout {
            // Room for an index of regular pages only, and one more.
            Layout::LdPrime => table.keys.len().div_ceil(REGULAR_ENTRIES) + 2,
            Layout::Small | Layout::Lld => pages.len() + 1,
        };
        let mut placed = Self { table, common, pages, layout, index_slots, len: 0 };
        if placed.pages.is_empty() {
            return Ok(placed);
        }
        let mut end = placed.pages_off();
        for page in &placed.pages {
            end = placed.page_end(end, page);
        }
        if u32::try_from(end).is_err() {
            return Err(Error::TooLarge { size: end as u64 });
        }
        placed.len = end;
        Ok(placed)
    }

    /// Bytes of the table: 0 if no entry has unwind information, for then there is no section.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no section.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the table. `slot_of` is the image offset of the pointer slot (in `__got`) that
    /// holds the address of a personality; it is asked once for each that the table names.
    pub fn write(
        &self,
        out: &mut [u8],
        mut slot_of: impl FnMut(NonZeroU32) -> ImageOffset,
    ) -> Result<(), Error> {
        if out.len() != self.len {
            return Err(Error::Buffer { size: self.len, buffer: out.len() });
        }
        if self.len == 0 {
            return Ok(());
        }
        let (head, pages) = out.split_at_mut(self.pages_off());
        head.fill(0);
        head[..Header::SIZE].copy_from_slice(&self.header().write());
        let common = self.common.iter().map(|&number| self.table.encodings[number as usize].0);
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

    fn pages_off(&self) -> usize {
        self.lsdas_off() + LsdaEntry::SIZE * self.table.lsdas.len()
    }

    /// Where a page that begins at `start` ends, its padding included.
    fn page_end(&self, start: usize, page: &Page) -> usize {
        match self.layout {
            Layout::Small => start + page.size(),
            Layout::Lld => start + PAGE_SIZE,
            Layout::LdPrime => (start + page.size()).next_multiple_of(8),
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
            let function = ImageOffset(self.table.keys[page.first as usize].function);
            before += self.table.lsdas[before..].partition_point(|lsda| lsda.function < function);
            put(IndexEntry { function, page_off: page_off as u32, lsda_off: lsda_off(before) });
            page_off = self.page_end(page_off, page);
        }
        let function = ImageOffset(self.table.end);
        put(IndexEntry { function, page_off: 0, lsda_off: lsda_off(self.table.lsdas.len()) });
    }

    fn write_pages(&self, mut out: &mut [u8]) {
        let mut palette = Palette::new(self.table.encodings.len(), &self.common);
        for page in &self.pages {
            let size = self.page_end(self.len - out.len(), page) - (self.len - out.len());
            let bytes;
            (bytes, out) = out.split_at_mut(size);
            let keys = &self.table.keys[page.first as usize..][..usize::from(page.count)];
            let used = match page.kind {
                PageKind::Regular => write_regular(bytes, keys, &self.table.encodings),
                PageKind::Compressed => {
                    write_compressed(bytes, keys, page.locals, &self.table.encodings, &mut palette)
                }
            };
            bytes[used..].fill(0);
        }
    }
}

/// Writes a regular page; returns its bytes.
fn write_regular(out: &mut [u8], keys: &[Key], encodings: &[Encoding]) -> usize {
    let header = RegularPage { entries_off: RegularPage::SIZE as u16, entries_count: keys.len() as u16 };
    out[..RegularPage::SIZE].copy_from_slice(&header.write());
    let slots = out[RegularPage::SIZE..].chunks_exact_mut(RegularEntry::SIZE);
    for (bytes, key) in slots.zip(keys) {
        let encoding = encodings[key.encoding as usize];
        let entry = RegularEntry { function: ImageOffset(key.function), encoding };
        bytes.copy_from_slice(&entry.write());
    }
    RegularPage::SIZE + RegularEntry::SIZE * keys.len()
}

/// Writes a compressed page; returns its bytes. Its own encodings are in the order of first use.
fn write_compressed(
    out: &mut [u8],
    keys: &[Key],
    locals: u16,
    encodings: &[Encoding],
    palette: &mut Palette,
) -> usize {
    let encodings_off = CompressedPage::SIZE + 4 * keys.len();
    let header = CompressedPage {
        entries_off: CompressedPage::SIZE as u16,
        entries_count: keys.len() as u16,
        encodings_off: encodings_off as u16,
        encodings_count: locals,
    };
    let (head, rest) = out.split_at_mut(CompressedPage::SIZE);
    head.copy_from_slice(&header.write());
    let (entries, own) = rest.split_at_mut(encodings_off - CompressedPage::SIZE);
    let mut own = own.chunks_exact_mut(ENCODING_SIZE);
    palette.turn_page();
    let base = keys.first().map_or(0, |key| key.function);
    for (bytes, key) in entries.chunks_exact_mut(4).zip(keys) {
        let (index, new) = palette.index(key.encoding);
        if new && let Some(slot) = own.next() {
            slot.copy_from_slice(&encodings[key.encoding as usize].0.to_le_bytes());
        }
        let entry = u32::from(index) << 24 | (key.function - base) & MAX_COMPRESSED_OFFSET;
        bytes.copy_from_slice(&entry.to_le_bytes());
    }
    encodings_off + ENCODING_SIZE * usize::from(locals)
}

/// The index that each encoding has in the page that is being written.
struct Palette {
    /// By number: index, and above it the page's stamp: 0 for common encodings.
    indices: Vec<u32>,
    stamp: u32,
    common: u8,
    next: u8,
}

impl Palette {
    fn new(encodings: usize, common: &[u32]) -> Self {
        let mut indices = vec![u32::MAX; encodings];
        for (&number, index) in common.iter().zip(0..) {
            indices[number as usize] = index;
        }
        Self { indices, stamp: 0, common: common.len() as u8, next: 0 }
    }

    fn turn_page(&mut self) {
        self.stamp += 1 << 8;
        self.next = self.common;
    }

    /// The index of an encoding, and whether the page has it only from now on.
    #[inline]
    fn index(&mut self, number: u32) -> (u8, bool) {
        let index = &mut self.indices[number as usize];
        if *index >> 8 == self.stamp >> 8 || *index < 1 << 8 {
            return (*index as u8, false);
        }
        *index = self.stamp | u32::from(self.next);
        self.next = self.next.wrapping_add(1);
        (*index as u8, true)
    }
}

/// Writes words one after the other, as many as there are.
fn put_words(out: &mut [u8], words: impl Iterator<Item = u32>) {
    for (bytes, word) in out.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
