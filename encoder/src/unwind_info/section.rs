//! The section before it has addresses: the most bytes it can have.

use alloc::vec::Vec;

use cfipack_format::unwind_info::{
    CompressedPage, ENCODING_SIZE, Header, IndexEntry, LsdaEntry, MAX_COMPRESSED_OFFSET, PERSONALITY_SIZE,
    RegularEntry, RegularPage,
};
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};

use super::backward::backward;
use super::common_palette::MAX_COMMON;
use super::dedup_entries::fold;
use super::entry::Entry;
use super::error::{Warning, WriteError};
use super::options::{Layout, Options};
use super::placed::Placed;
use super::split::{PAGE_SIZE, REGULAR_ENTRIES, forward};
use super::{common_palette, small};

/// A table's entries, settled, before they have their final addresses.
#[derive(Clone, Debug)]
pub struct Section {
    arch: Arch,
    options: Options,
    entries: Vec<Entry>,
    personalities: usize,
    warnings: Vec<Warning>,
}

impl Section {
    pub(super) fn new(
        arch: Arch,
        options: Options,
        entries: Vec<Entry>,
        personalities: usize,
        warnings: Vec<Warning>,
    ) -> Self {
        Self { arch, options, entries, personalities, warnings }
    }

    /// What could not be written as it was given.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Entries that were pushed.
    pub fn num_entries(&self) -> usize {
        self.entries.len()
    }

    /// The most bytes that the table can have, wherever its functions will lie.
    ///
    /// A page that is not the last has at least 511 entries in [`Layout::Lld`] and
    /// [`Layout::LdPrime`], and an entry costs at most 8 bytes; [`Layout::Small`] has no more
    /// bytes than they. In [`Layout::Ld64`] the last page and the first two may have fewer; a
    /// page costs two stray encodings and 4 bytes of padding more, and there is up to a page of
    /// nothing before the last one.
    pub fn max_len(&self) -> usize {
        let entries = self.entries.len();
        let pages = match self.options.layout {
            Layout::Ld64 => (entries.div_ceil(REGULAR_ENTRIES) + 2).min(entries),
            _ => entries.div_ceil(REGULAR_ENTRIES),
        };
        let lsdas = self.entries.iter().filter(|entry| entry.lsda.is_some()).count();
        let fixed = Header::SIZE
            + ENCODING_SIZE * entries.min(MAX_COMMON)
            + PERSONALITY_SIZE * self.personalities
            + IndexEntry::SIZE * (pages + 1)
            + LsdaEntry::SIZE * lsdas;
        let regular = RegularEntry::SIZE * entries;
        let compressed = regular + CompressedPage::SIZE * pages;
        fixed
            + match self.options.layout {
                Layout::Small => compressed,
                Layout::Lld => PAGE_SIZE * pages,
                // Only the last page can have so few entries that a compressed one is larger than
                // a regular one: by 4 bytes, and 4 to its end. The first page's end may cost 4.
                Layout::LdPrime => regular + RegularPage::SIZE * pages + IndexEntry::SIZE + 12,
                Layout::Ld64 => compressed + 12 * pages + PAGE_SIZE,
            }
    }

    /// Sorts the entries and cuts them into pages, now that addresses are known: `function_at` gives the image
    /// offset of a function, `lsda_at` that of an LSDA, by its key. `end` is
    /// the end of the code that the table speaks for, the end of `__text`; [`Layout::Lld`] does
    /// without, and the others take the end of the last entry if it is not given or lies lower
    /// ([`Layout::Ld64`] writes one more than it). An LSDA at 0, where the Mach-O header is, is none.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
    pub fn place(
        &self,
        end: Option<ImageOffset>,
        function_at: impl Fn(Key) -> ImageOffset,
        lsda_at: impl Fn(LsdaKey) -> ImageOffset,
    ) -> Result<Placed, WriteError> {
        let Self { arch, options: Options { layout, eh_frame_len, .. }, .. } = *self;
        let mut table = fold(&self.entries, arch, layout, function_at, lsda_at);
        if let Some(end) = end
            && layout != Layout::Lld
        {
            table.end = table.end.max(end.0);
        }
        if layout == Layout::Ld64 {
            table.end = table.end.saturating_add(1);
        }
        let (common, pages) = match layout {
            _ if !table.is_written => (Vec::new(), Vec::new()),
            Layout::Small => small::choose(&table, arch),
            Layout::Lld => {
                let common = common_palette::lld(&table);
                let pages = forward(&table, &common, MAX_COMPRESSED_OFFSET - 1);
                (common, pages)
            }
            Layout::LdPrime => {
                let common = common_palette::apple(&table, arch);
                let pages = forward(&table, &common, MAX_COMPRESSED_OFFSET);
                (common, pages)
            }
            Layout::Ld64 => {
                let common = common_palette::apple(&table, arch);
                let pages = backward(&table, &common, eh_frame_len);
                (common, pages)
            }
        };
        Placed::new(table, common, pages, arch, layout)
    }
}
