//! The section before it has addresses: the most bytes it can have.

use alloc::vec::Vec;

use cfipack_format::unwind_info::{
    CompressedPage, ENCODING_SIZE, Header, IndexEntry, LsdaEntry, MAX_COMPRESSED_OFFSET, PERSONALITY_SIZE,
    RegularEntry,
};
use cfipack_format::{Arch, ImageOffset};

use super::common_palette::MAX_COMMON;
use super::entry::Entry;
use super::error::{Error, Warning};
use super::fold::fold;
use super::options::Layout;
use super::placed::Placed;
use super::split::{PAGE_SIZE, REGULAR_ENTRIES, forward};
use super::{common_palette, small};

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
    /// without, and the others take the end of the last entry if it is not given or lies lower. An LSDA that
    /// is at 0 now is none.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
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
                let common = common_palette::lld(&table);
                let pages = forward(&table, &common, MAX_COMPRESSED_OFFSET - 1);
                (common, pages)
            }
            Layout::LdPrime => {
                let common = common_palette::ld_prime(&table, self.arch);
                let pages = forward(&table, &common, MAX_COMPRESSED_OFFSET);
                (common, pages)
            }
        };
        Placed::new(table, common, pages, self.layout)
    }
}
