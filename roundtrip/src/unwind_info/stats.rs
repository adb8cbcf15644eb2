//! The use of a table's bytes, and statistics of its entries.

use std::collections::HashSet;

use cfipack_decoder::unwind_info::{Page, Section};
use cfipack_format::Arch;
use cfipack_format::compact_unwind::{Encoding, Flags, Mode};
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, Header, IndexEntry, LsdaEntry, PERSONALITY_SIZE,
    PageKind, RegularEntry, RegularPage,
};
use cfipack_format::widen::ToU64;

/// Bytes, pages and entries of a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "UnwindInfoStats"))]
pub struct Stats {
    /// The sizes of the table's parts in bytes.
    pub bytes: Bytes,
    /// The number of compressed pages.
    pub compressed_pages: u64,
    /// The number of regular pages.
    pub regular_pages: u64,
    /// The number of pages that cannot be read.
    pub malformed_pages: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of entries in each mode.
    pub modes: Modes,
    /// The number of different encodings.
    pub encodings: u64,
    /// The number of LSDA records.
    pub lsdas: u64,
    /// The number of personalities.
    pub personalities: u64,
    /// The size of the code from the first entry to the sentinel, in bytes.
    pub code: u64,
}

/// The number of entries in each mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Modes {
    /// Entries of functions with a frame pointer, also functions whose return address is signed with a PC (mode 5 of arm64).
    pub frame: u64,
    /// Entries of functions without a frame pointer, with the size of the stack frame in the encoding.
    pub frameless: u64,
    /// Entries of functions without a frame pointer, with the size of the stack frame in the function's code.
    pub indirect: u64,
    /// Entries in DWARF mode.
    pub dwarf: u64,
    /// Entries without unwind information.
    pub none: u64,
    /// Entries in an unknown mode, and entries that cannot be read.
    pub malformed: u64,
    /// Entries with the flag that says that they do not begin at the start of a function. They also count in their
    /// mode.
    pub not_function_start: u64,
}

/// The sizes of a table's parts in bytes. `total` is the sum of the parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "UnwindInfoBytes"))]
pub struct Bytes {
    /// The whole section.
    pub total: u64,
    /// The header.
    pub header: u64,
    /// The common encodings.
    pub common_encodings: u64,
    /// The personalities.
    pub personalities: u64,
    /// The index, with its sentinel.
    pub index: u64,
    /// The LSDA index.
    pub lsdas: u64,
    /// The headers of the pages.
    pub page_headers: u64,
    /// The entries of the pages.
    pub entries: u64,
    /// The local palettes: the encodings that pages have of their own.
    pub page_encodings: u64,
    /// Padding, slack, and bytes that cannot be read. This is 0 if parts overlap.
    pub other: u64,
}

impl Modes {
    /// Counts an entry.
    pub fn count(&mut self, arch: Arch, encoding: Encoding) {
        let count = match encoding.mode(arch) {
            Some(Mode::Frame | Mode::FramePauthLr) => &mut self.frame,
            Some(Mode::Frameless) => &mut self.frameless,
            Some(Mode::FramelessIndirect) => &mut self.indirect,
            Some(Mode::Dwarf) => &mut self.dwarf,
            Some(Mode::None) => &mut self.none,
            None => &mut self.malformed,
        };
        *count += 1;
        self.not_function_start += u64::from(encoding.flags().contains(Flags::NOT_FUNCTION_START));
    }

    /// Returns the number of entries that need no FDE: frame, frameless and indirect.
    pub fn compact(&self) -> u64 {
        self.frame + self.frameless + self.indirect
    }
}

/// Counts encodings by mode, for example of an object's rows.
pub fn modes(arch: Arch, encodings: impl IntoIterator<Item = Encoding>) -> Modes {
    let mut modes = Modes::default();
    encodings.into_iter().for_each(|encoding| modes.count(arch, encoding));
    modes
}

/// Counts a table's bytes, pages and entries.
pub fn stats(arch: Arch, section: &Section<'_>) -> Stats {
    let mut stats = Stats::default();
    let mut encodings = HashSet::new();
    for page in section.pages() {
        match page {
            Ok(page) => stats.page(arch, &page, &mut encodings),
            Err(_) => stats.malformed_pages += 1,
        }
    }
    stats.encodings = encodings.len().to_u64();
    stats.lsdas = section.all_lsdas().map_or(0, |lsdas| lsdas.len().to_u64());
    stats.personalities = section.personalities().len().to_u64();
    let mut index = section.index();
    if let (Some(first), Some(sentinel)) = (index.next(), index.last()) {
        stats.code = sentinel.function.0.saturating_sub(first.function.0).into();
    }
    let bytes = &mut stats.bytes;
    bytes.total = section.bytes().len().to_u64();
    bytes.header = Header::SIZE.to_u64();
    bytes.common_encodings = (section.common_encodings().len() * ENCODING_SIZE).to_u64();
    bytes.personalities = stats.personalities * PERSONALITY_SIZE.to_u64();
    bytes.index = (section.index().len() * IndexEntry::SIZE).to_u64();
    bytes.lsdas = stats.lsdas * LsdaEntry::SIZE.to_u64();
    bytes.other = bytes.total.saturating_sub(bytes.parts());
    stats
}

impl Bytes {
    fn parts(&self) -> u64 {
        let head = self.header + self.common_encodings + self.personalities + self.index + self.lsdas;
        head + self.page_headers + self.entries + self.page_encodings
    }
}

impl Stats {
    fn page(&mut self, arch: Arch, page: &Page<'_>, encodings: &mut HashSet<u32>) {
        let (pages, header, entry) = match page.kind() {
            PageKind::Regular => (&mut self.regular_pages, RegularPage::SIZE, RegularEntry::SIZE),
            PageKind::Compressed => (&mut self.compressed_pages, CompressedPage::SIZE, CompressedEntry::SIZE),
        };
        *pages += 1;
        self.bytes.page_headers += header.to_u64();
        self.bytes.entries += (page.len() * entry).to_u64();
        self.bytes.page_encodings += (page.local_encodings().len() * ENCODING_SIZE).to_u64();
        self.entries += page.len().to_u64();
        for number in 0..page.len() {
            match page.stored_entry(number) {
                Some(Ok(entry)) => {
                    encodings.insert(entry.encoding.0);
                    self.modes.count(arch, entry.encoding);
                }
                _ => self.modes.malformed += 1,
            }
        }
    }
}
