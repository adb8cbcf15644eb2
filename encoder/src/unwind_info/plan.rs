//! Computes the size of a table when the order of its functions is known, and the addresses are not.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{
    ENCODING_SIZE, Header, IndexEntry, LsdaEntry, MAX_COMPRESSED_OFFSET, PERSONALITY_SIZE, PageKind,
};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};

use super::bound::{Named, PAGE, named, numbers};
use super::dedup_entries::DedupedEntries;
use super::entry::is_dwarf;
use super::fill::{Run, fill};
use super::min_pages::Partition;
use super::places::Places;
use super::split::{PAGE_SIZE, Page};

/// How far the functions of a page may move apart before the page has to be split. It is half of the range of a
/// compressed page. Real pages rarely use a thousandth of this range.
const MAX_SLACK: u32 = 1 << 23;

/// The most bytes of a table, given the order of its functions. You get it from [`Section::plan`].
///
/// [`Section::plan`]: super::Section::plan
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) max_len: usize,
    /// The pages that [`Layout::Small`](super::Layout::Small) can fall back to.
    pub(super) pages: Option<Pages>,
}

impl Plan {
    /// Returns the most bytes that the table can have. The promise holds as long as the conditions of
    /// [`Section::plan`](super::Section::plan) hold.
    pub fn max_len(&self) -> usize {
        self.max_len
    }
}

/// How far functions may move apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// How far the functions of a page may move apart without a split, in bytes.
    pub(super) slack: u32,
    /// How many pages at most have to be split if functions move further.
    pub(super) splits: usize,
}

impl Growth {
    /// Divides `growth`, the sum in bytes by which all distances may grow. The `table` has tentative addresses. A
    /// page that has to be split has grown by more than the slack.
    pub(super) fn new(growth: u32, table: &DedupedEntries) -> Self {
        let ends = table.keys.first().zip(table.keys.last());
        let reach = ends.map_or(0, |(first, last)| last.function - first.function);
        // If a single page can reach all functions, then the rest of its range is slack.
        let slack = growth.min(MAX_SLACK.max((MAX_COMPRESSED_OFFSET - 1).saturating_sub(reach)));
        Self { slack, splits: (growth / (slack + 1)).to_usize() }
    }
}

/// A palette and pages in a form that stays valid when functions move.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// The functions of the entries, in order.
    order: Vec<Key>,
    common: Vec<Named>,
    /// Common encodings in DWARF mode. Each is given by the place in `order` of the only entry with this encoding.
    common_dwarf: Vec<u32>,
    /// For each page the place in `order` of its first entry.
    pages: Vec<(u32, PageKind)>,
}

impl Pages {
    /// Plans a table with its entries in `order`. Each entry of `order` has the tentative address and the key.
    pub(super) fn new(
        table: &DedupedEntries,
        partition: &Partition,
        order: Vec<(u32, Key)>,
        arch: Arch,
    ) -> Self {
        let place = |key: u32| {
            let at = table.keys[key.to_usize()].function;
            order.partition_point(|entry| entry.0 < at) as u32
        };
        let common = partition.common.iter().copied();
        let (dwarf, others): (Vec<u32>, Vec<u32>) =
            common.partition(|&number| is_dwarf(table.encodings[number.to_usize()], arch));
        let common_dwarf = if dwarf.is_empty() {
            Vec::new()
        } else {
            let mut is_common = vec![false; table.encodings.len()];
            dwarf.iter().for_each(|&number| is_common[number.to_usize()] = true);
            let keys = table.keys.iter().zip(0..);
            keys.filter(|(key, _)| is_common[key.encoding.to_usize()]).map(|(_, at)| place(at)).collect()
        };
        let others = others.into_iter().map(|number| table.encodings[number.to_usize()]);
        Self {
            common: others.map(|encoding| named(encoding, &table.personalities)).collect(),
            common_dwarf,
            pages: partition.pages.iter().map(|page| (place(page.first), page.kind)).collect(),
            order: order.into_iter().map(|(_, key)| key).collect(),
        }
    }

    /// Returns the pages for the functions' final addresses.
    pub(super) fn partition(&self, table: &DedupedEntries, places: &impl Places) -> Partition {
        let address = |at: u32| places.function(self.order[at.to_usize()]).map(|at| at.0);
        let mut common = numbers(table, self.common.iter().copied());
        for at in self.common_dwarf.iter().filter_map(|&at| address(at)) {
            if let Ok(key) = table.keys.binary_search_by_key(&at, |key| key.function) {
                common.push(table.keys[key].encoding);
            }
        }
        common.sort_unstable();
        common.dedup();
        let mut runs: Vec<Run> = Vec::new();
        for (number, &(start, kind)) in self.pages.iter().enumerate() {
            let end = self.pages.get(number + 1).map_or(self.order.len() as u32, |next| next.0);
            // A function without an address is not in the table.
            let Some(start) = (start..end).find_map(address) else { continue };
            let first = table.keys.partition_point(|key| key.function < start);
            if runs.is_empty() {
                runs.push(Run { first: 0, kind });
            } else if runs.last().is_some_and(|last| last.first < first) {
                runs.push(Run { first, kind });
            }
        }
        fill(table, common, &runs)
    }
}

/// Returns the bytes of a table apart from its palette, its pages and their index entries.
pub(super) fn fixed_len(table: &DedupedEntries) -> usize {
    Header::SIZE
        + PERSONALITY_SIZE * table.personalities.len()
        + IndexEntry::SIZE
        + LsdaEntry::SIZE * table.lsdas.len()
}

/// Returns the most bytes that splitting pages costs.
pub(super) fn split_len(pages: &[Page], splits: usize) -> usize {
    let compressed = pages.iter().filter(|page| page.kind == PageKind::Compressed);
    let locals = compressed.map(|page| usize::from(page.locals)).max();
    locals.map_or(0, |locals| splits * (PAGE + ENCODING_SIZE * locals))
}

/// The most bytes of a page in [`Layout::LdPrime`](super::Layout::LdPrime). The end of a page is rounded up.
pub(super) const LD_PRIME_PAGE: usize = PAGE_SIZE + 4;

/// Returns the bytes that splitting pages costs in [`Layout::Lld`](super::Layout::Lld).
pub(super) const fn lld_split_len(splits: usize) -> usize {
    splits * (PAGE_SIZE + IndexEntry::SIZE)
}

/// Supplies addresses while LSDAs have no addresses yet.
pub(super) struct Tentative<'a, P>(pub(super) &'a P);

impl<P: Places> Places for Tentative<'_, P> {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        self.0.function(function)
    }

    fn lsda(&self, _: LsdaKey) -> Option<ImageOffset> {
        // Only the existence of the LSDA matters.
        Some(ImageOffset(1))
    }

    fn dwarf(&self, function: Key, encoding: Encoding) -> Encoding {
        self.0.dwarf(function, encoding)
    }
}
