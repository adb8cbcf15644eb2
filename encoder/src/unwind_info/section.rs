//! The section before it has addresses: the most bytes it can have.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::unwind_info::{
    CompressedPage, ENCODING_SIZE, Header, IndexEntry, LsdaEntry, MAX_COMPRESSED_OFFSET, PERSONALITY_SIZE,
    RegularEntry, RegularPage,
};
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};

use super::backward::{Room, backward};
use super::bound::Bound;
use super::common_palette::MAX_COMMON;
use super::dedup_entries::{DedupedEntries, OfOneAddress, dedup};
use super::entry::Entry;
use super::error::{Warning, WriteError};
use super::min_pages::Partition;
use super::options::{Layout, Options};
use super::placed::Placed;
use super::places::{Everywhere, Places};
use super::plan::{Growth, LD_PRIME_PAGE, Pages, Plan, Tentative, fixed_len, lld_split_len, split_len};
use super::split::{PAGE_SIZE, REGULAR_ENTRIES, forward};
use super::{common_palette, small};

/// A table's entries, normalized, before they have their final addresses.
#[derive(Clone, Debug)]
pub struct Section {
    arch: Arch,
    options: Options,
    entries: Vec<Entry>,
    personalities: Vec<NonZeroU32>,
    warnings: Vec<Warning>,
    /// Of [`Layout::Small`].
    bound: Option<Bound>,
}

impl Section {
    pub(super) fn new(
        arch: Arch,
        options: Options,
        entries: Vec<Entry>,
        personalities: Vec<NonZeroU32>,
        warnings: Vec<Warning>,
    ) -> Self {
        let bound = (options.layout == Layout::Small).then(|| Bound::new(&entries, &personalities, arch));
        Self { arch, options, entries, personalities, warnings, bound }
    }

    /// Warnings about what could not be written as it was given.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Entries that were pushed.
    pub fn num_entries(&self) -> usize {
        self.entries.len()
    }

    /// The personalities that the table may name, at most three: each needs a pointer slot with its address.
    pub fn personalities(&self) -> &[NonZeroU32] {
        &self.personalities
    }

    /// The most bytes that the table can have, wherever its functions will lie and in whatever order: no entry may
    /// turn out to equal its neighbour then, and functions may lie 2^24 bytes apart. [`plan`](Self::plan) gives the size
    /// of the likely table where the order is known.
    ///
    /// In [`Layout::Small`] an entry costs 4 bytes and, if its encoding is not among the up to 127 most used ones, 4
    /// more, or 8 in regular pages. A page that is not the last has at least 511 entries in [`Layout::Lld`] and
    /// [`Layout::LdPrime`], and an entry costs at most 8 bytes. In [`Layout::Ld64`] and [`Layout::Ld64V253`] the last page and the first two may
    /// have fewer; a page costs two stray encodings and 4 bytes of padding more, and there is up to a page of nothing
    /// before the last one.
    pub fn max_len(&self) -> usize {
        let lsdas = self.entries.iter().filter(|entry| entry.lsda.is_some()).count();
        let rest = Header::SIZE + PERSONALITY_SIZE * self.personalities.len() + LsdaEntry::SIZE * lsdas;
        match &self.bound {
            Some(bound) => rest + IndexEntry::SIZE + bound.len,
            None => rest + max_pages_len(self.options.layout, self.entries.len()),
        }
    }

    /// The most bytes of the table if its functions lie in an order that is known before their addresses are.
    ///
    /// `tentative` gives every function a place in this order. Where nothing more is known, its rank will do; the closer
    /// its places are to the final ones, the better. Functions that it knows no place of are not expected in the table,
    /// and every LSDA is. `growth` bounds how much further than in `tentative` functions lie apart in the end: the sum
    /// over all neighbours, in bytes. Where `tentative` gives addresses in a first layout, that is what may yet be
    /// inserted between functions; where it gives ranks, the length of all code.
    ///
    /// **What is promised.** The functions have distinct addresses in the same order, at least the declared distances apart; LSDAs are where
    /// [`Places::lsda`] places them; FDEs are where `tentative` places them, no two of a table at one place.
    ///
    /// - [`Layout::Small`]: [`place_planned`](Self::place_planned) needs at most [`Plan::max_len`] bytes, also if
    ///   functions of the plan have no address, one address, or no FDE in the end.
    /// - [`Layout::Lld`]: the same, if all functions have addresses and FDEs lie in the order that `tentative` gives
    ///   them.
    /// - [`Layout::LdPrime`]: the same; but where the promise leaves open whether a page reaches 16 MiB, each page counts
    ///   as a full one.
    /// - [`Layout::Ld64`] and [`Layout::Ld64V253`]: the same, and 8 bytes an entry in such a case.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
    pub fn plan(&self, tentative: &impl Places, growth: u32) -> Result<Plan, WriteError> {
        let mut table = self.deduped(&Tentative(tentative), OfOneAddress::First);
        let Options { layout, .. } = self.options;
        if !table.is_written {
            return Ok(Plan { max_len: 0, pages: None });
        }
        let exact = (layout != Layout::Small).then(|| self.linkers_partition(&table).pages);
        let growth = Growth::new(growth, &table);
        table.slack = growth.slack;
        let mut pages = None;
        let most = self.max_len();
        let max_len = if layout == Layout::Small {
            let partition = small::choose(&table, self.arch);
            let len = fixed_len(&table) + partition.size() + split_len(&partition.pages, growth.splits);
            let place = |entry: &Entry| Some((tentative.function(entry.function)?.0, entry.function));
            let mut order: Vec<_> = self.entries.iter().filter_map(place).collect();
            if !order.is_sorted_by_key(|entry| entry.0) {
                order.sort_by_cached_key(|entry| u64::from(entry.0));
            }
            pages = Some(Pages::new(&table, &partition, order, self.arch));
            len
        } else {
            let entries = table.keys.len();
            let lsdas = table.lsdas.len();
            let personalities = table.personalities.len();
            let partition = self.linkers_partition(&table);
            let is_exact = Some(&partition.pages) == exact.as_ref() && growth.splits == 0;
            let pages = partition.pages.len() + growth.splits;
            let placed = Placed::new(table, partition, self.arch, layout)?;
            if is_exact || layout == Layout::Lld {
                placed.len() + lld_split_len(growth.splits)
            } else {
                let by_pages = match layout {
                    Layout::LdPrime => placed.pages_off() + 4 + LD_PRIME_PAGE * pages,
                    _ => usize::MAX,
                };
                let fixed = Header::SIZE + PERSONALITY_SIZE * personalities + LsdaEntry::SIZE * lsdas;
                (fixed + max_pages_len(layout, entries)).min(by_pages)
            }
        };
        Ok(Plan { max_len: max_len.min(most), pages })
    }

    /// Sorts the entries and cuts them into pages, now that addresses are known: `function_at` gives the image
    /// offset of a function, `lsda_at` that of an LSDA, by its key. `end` is
    /// the end of the code that the table speaks for, the end of `__text`; [`Layout::Lld`] does
    /// without, and the others take the end of the last entry if it is not given or lies lower
    /// ([`Layout::Ld64`] and [`Layout::Ld64V253`] write one more than it). An LSDA at 0, where the Mach-O header is, is none.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
    pub fn place(
        &self,
        end: Option<ImageOffset>,
        function_at: impl Fn(Key) -> ImageOffset,
        lsda_at: impl Fn(LsdaKey) -> ImageOffset,
    ) -> Result<Placed, WriteError> {
        self.placed(end, &Everywhere { function_at, lsda_at }, OfOneAddress::Last, None)
    }

    /// Lays the table out, where some functions or LSDAs may have no address, and FDEs have places of their own; otherwise
    /// like [`place`](Self::place). Of entries at one address, the first one that has unwind information and is not empty counts. Keeps to a
    /// [`plan`](Self::plan) of this section, if one is given.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    pub fn place_planned(
        &self,
        plan: Option<&Plan>,
        end: Option<ImageOffset>,
        places: &impl Places,
    ) -> Result<Placed, WriteError> {
        self.placed(end, places, OfOneAddress::First, plan)
    }

    fn deduped(&self, places: &impl Places, of_one_address: OfOneAddress) -> DedupedEntries {
        dedup(&self.entries, self.arch, self.options.layout, places, of_one_address)
    }

    fn placed(
        &self,
        end: Option<ImageOffset>,
        places: &impl Places,
        of_one_address: OfOneAddress,
        plan: Option<&Plan>,
    ) -> Result<Placed, WriteError> {
        let Options { layout, .. } = self.options;
        let mut table = self.deduped(places, of_one_address);
        if let Some(end) = end
            && layout != Layout::Lld
        {
            table.end = table.end.max(end.0);
        }
        if layout.is_ld64() {
            table.end = table.end.saturating_add(1);
        }
        let partition = match layout {
            _ if !table.is_written => Partition { common: Vec::new(), pages: Vec::new(), exact: true },
            Layout::Small => self.smallest(&table, places, plan),
            _ => self.linkers_partition(&table),
        };
        Placed::new(table, partition, self.arch, layout)
    }

    /// The smallest table, and none that is larger than was promised.
    fn smallest(&self, table: &DedupedEntries, places: &impl Places, plan: Option<&Plan>) -> Partition {
        let mut partition = small::choose(table, self.arch);
        if let Some(bound) = &self.bound
            && partition.size() > bound.len
        {
            partition.take_smaller(bound.partition(table));
        }
        if let Some(Plan { max_len, pages: Some(pages) }) = plan
            && fixed_len(table) + partition.size() > *max_len
        {
            partition.take_smaller(pages.partition(table, places));
        }
        partition
    }

    /// Palette and pages as other linkers choose them.
    fn linkers_partition(&self, table: &DedupedEntries) -> Partition {
        let Options { layout, eh_frame_len, .. } = self.options;
        let (common, pages) = match layout {
            Layout::Lld | Layout::Small => {
                let common = common_palette::lld(table);
                let pages = forward(table, &common, MAX_COMPRESSED_OFFSET - 1);
                (common, pages)
            }
            Layout::LdPrime => {
                let common = common_palette::apple(table, self.arch);
                let pages = forward(table, &common, MAX_COMPRESSED_OFFSET);
                (common, pages)
            }
            Layout::Ld64 | Layout::Ld64V253 => {
                let common = common_palette::apple(table, self.arch);
                let room = if layout == Layout::Ld64 { Room::AskedLate } else { Room::LessAWord };
                let pages = backward(table, &common, eh_frame_len, room);
                (common, pages)
            }
        };
        Partition { common, pages, exact: false }
    }
}

/// The most bytes of palette, index and pages that other linkers make of so many entries.
fn max_pages_len(layout: Layout, entries: usize) -> usize {
    let pages = match layout {
        Layout::Ld64 | Layout::Ld64V253 => (entries.div_ceil(REGULAR_ENTRIES) + 2).min(entries),
        _ => entries.div_ceil(REGULAR_ENTRIES),
    };
    let fixed = ENCODING_SIZE * entries.min(MAX_COMMON) + IndexEntry::SIZE * (pages + 1);
    let regular = RegularEntry::SIZE * entries;
    let compressed = regular + CompressedPage::SIZE * pages;
    fixed
        + match layout {
            Layout::Small => compressed,
            Layout::Lld => PAGE_SIZE * pages,
            // Only the last page can have so few entries that a compressed one is larger than
            // a regular one: by 4 bytes, and 4 to its end. The first page's end may cost 4.
            Layout::LdPrime => regular + RegularPage::SIZE * pages + IndexEntry::SIZE + 12,
            Layout::Ld64 | Layout::Ld64V253 => compressed + 12 * pages + PAGE_SIZE,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind_info::Builder;
    use cfipack_format::compact_unwind::Encoding;
    use cfipack_format::widen::{ToU64, ToUsize};
    use cfipack_testkit::random::Random;

    struct At(Vec<Option<u32>>);

    impl Places for At {
        fn function(&self, function: Key) -> Option<ImageOffset> {
            self.0[function.0.to_usize()].map(ImageOffset)
        }

        fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
            Some(lsda.image_offset())
        }
    }

    /// The pages that a promise falls back to, which the search for the smallest table hardly ever needs.
    #[test]
    fn fallbacks_keep_their_promises() {
        let mut random = Random::new(7);
        let mut by_itself = 0;
        for _ in 0..300 {
            let most = random.pick(&[5, 700, 5000]);
            let distinct = random.pick(&[2, 130, 300, 3000]);
            let count = 1 + random.below(most).to_usize();
            let mut builder = Builder::new(Arch::Amd64, Options::default()).unwrap();
            for number in 0..count {
                let encoding = if random.chance(5) {
                    Encoding::dwarf(Arch::Amd64, 1 + number as u32)
                } else {
                    Encoding(0x0200_0000 | (random.below(distinct) as u32) << 4)
                };
                let lsda = if random.chance(8) { LsdaKey::new(1 + number.to_u64()) } else { None };
                builder.push(Entry { lsda, ..Entry::new(Key(number.to_u64()), 4, encoding) });
            }
            let section = builder.finish();
            let step = 4 + random.below(30) as u32;
            let first = At((0..count as u32).map(|number| Some(0x1000 + step * number)).collect());
            let mut growth = 0_u64;
            let mut at = 0x4000_u64;
            let often = random.pick(&[0, 1, 30]);
            let moved = (0..count).map(|_| {
                let gap =
                    if random.chance(often) { random.pick(&[4, 0x1000, 0x80_0000, 0xff_ffff]) } else { 0 };
                let gap = if at < 0xf000_0000 { gap } else { 0 };
                growth += gap;
                at += u64::from(step) + gap;
                (!random.chance(3)).then_some(at as u32)
            });
            let moved = At(moved.collect());
            let plan = section.plan(&first, growth as u32).unwrap();
            let table = section.deduped(&moved, OfOneAddress::First);
            if !table.is_written {
                continue;
            }
            let bound = section.bound.as_ref().expect("layout small has one");
            let by_bound = bound.partition(&table);
            assert!(by_bound.size() <= bound.len, "{} of {}", by_bound.size(), bound.len);
            let by_plan = plan.pages.as_ref().expect("layout small has them").partition(&table, &moved);
            // A plan is no larger than the bound for any order, which then is what keeps it.
            let len = fixed_len(&table) + by_plan.size().min(by_bound.size());
            assert!(len <= plan.max_len, "{len} of {}", plan.max_len);
            by_itself += usize::from(plan.max_len < section.max_len());
            // Both are tables of all functions.
            for partition in [by_bound, by_plan] {
                let entries: usize = partition.pages.iter().map(|page| usize::from(page.count)).sum();
                assert_eq!(entries, table.keys.len());
            }
        }
        assert!(by_itself > 100, "{by_itself} plans below the bound for any order");
    }
}
