//! A section before it has addresses, and the most bytes that it can have.

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
use super::dedup_entries::{DedupedEntries, SameAddress, dedup};
use super::entry::Entry;
use super::error::{Warning, WriteError};
use super::min_pages::Partition;
use super::options::{Layout, Options};
use super::placed::Placed;
use super::places::{Everywhere, Places};
use super::plan::{Growth, LD_PRIME_PAGE, Pages, Plan, Tentative, fixed_len, lld_split_len, split_len};
use super::split::{PAGE_SIZE, REGULAR_ENTRIES, forward};
use super::{common_palette, small};

/// The entries of a table before they have final addresses. [`Builder::finish`](super::Builder::finish) returns it.
///
/// Reserve [`max_len`](Self::max_len) bytes for the table while you lay out the output. When all addresses are known,
/// call [`place`](Self::place) and write the result. After another relayout, call `place` again: no CFI is read
/// again.
#[derive(Clone, Debug)]
pub struct Section {
    arch: Arch,
    options: Options,
    entries: Vec<Entry>,
    personalities: Vec<NonZeroU32>,
    warnings: Vec<Warning>,
    /// The bound on the size in layout [`Layout::Small`].
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
        let bound = options.layout.habits().is_smallest.then(|| Bound::new(&entries, &personalities, arch));
        Self { arch, options, entries, personalities, warnings, bound }
    }

    /// Returns warnings about entries that could not be written as they were pushed.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of entries that were pushed.
    pub fn num_entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns the personalities that the table may refer to, at most three. Each needs a pointer slot with its
    /// address, for example in `__got`.
    pub fn personalities(&self) -> &[NonZeroU32] {
        &self.personalities
    }

    /// Returns the most bytes that the table can have, wherever its functions will lie and in whatever order.
    ///
    /// This bound assumes that no entry is merged with an equal neighbour, and that functions may lie 2^24 bytes
    /// apart. If you know the order of the functions, [`plan`](Self::plan) gives a bound that is close to the real
    /// size.
    ///
    /// - [`Layout::Small`]: an entry costs 4 bytes, and 4 more if its encoding is not among the most used
    ///   encodings (at most 127). In a regular page it costs 8 bytes.
    /// - [`Layout::Lld`], [`Layout::LdPrime`], [`Layout::LdPrime27`] and [`Layout::Zig`]: each page except the last one has at least 511 entries. An entry
    ///   costs at most 8 bytes.
    /// - [`Layout::Ld64`] and [`Layout::Ld64V253`]: the last page and the first two pages may have fewer entries.
    ///   Each page also costs two stray encodings and 4 bytes of padding. There may be up to 4096 unused bytes before
    ///   the last page.
    pub fn max_len(&self) -> usize {
        let lsdas = self.entries.iter().filter(|entry| entry.lsda.is_some()).count();
        let rest = Header::SIZE + PERSONALITY_SIZE * self.personalities.len() + LsdaEntry::SIZE * lsdas;
        match &self.bound {
            Some(bound) => rest + IndexEntry::SIZE + bound.len,
            None => rest + max_pages_len(self.options.layout, self.entries.len()),
        }
    }

    /// Returns the most bytes of the table, given the order of its functions. Call this if you know the order before
    /// you know the addresses.
    ///
    /// Pass in `tentative` a place for every function, in this order. The rank of a function is good enough, but the
    /// closer the places are to the final addresses, the better. A function without a place is not expected in the
    /// table. Every LSDA is expected.
    ///
    /// Pass in `growth` a bound on how much farther apart the functions lie in the end, in bytes: the sum over all
    /// pairs of neighbours. If `tentative` has the addresses of a first layout, pass the number of bytes that may
    /// still be inserted between functions. If it has ranks, pass the length of all code.
    ///
    /// **The promise.** It holds if the functions have distinct addresses in the same order, at least as far apart as
    /// declared; if LSDAs lie where [`Places::lsda`] places them; and if FDEs lie where `tentative` places them, no
    /// two of a table at the same place.
    ///
    /// - [`Layout::Small`]: [`place_planned`](Self::place_planned) needs at most [`Plan::max_len`] bytes. This holds
    ///   even if functions of the plan have no address, share an address, or have no FDE in the end.
    /// - [`Layout::Lld`] and [`Layout::Zig`]: the same holds if all functions have addresses and FDEs lie in the order of `tentative`.
    /// - [`Layout::LdPrime`] and [`Layout::LdPrime27`]: as `Lld`. But if it stays open whether a page reaches 16 MiB, then each page counts as
    ///   a full page.
    /// - [`Layout::Ld64`] and [`Layout::Ld64V253`]: as `Lld`. But if it stays open whether a page reaches its maximal
    ///   range, then each entry counts as 8 bytes.
    ///
    /// # Errors
    /// This function returns [`WriteError::TooLarge`] if the table would be larger than 4 GiB.
    pub fn plan(&self, tentative: &impl Places, growth: u32) -> Result<Plan, WriteError> {
        let mut table = self.deduped(&Tentative(tentative), SameAddress::First);
        let Options { layout, .. } = self.options;
        let habits = layout.habits();
        if !table.is_written {
            return Ok(Plan { max_len: 0, pages: None });
        }
        let exact = (!habits.is_smallest).then(|| self.linkers_partition(&table).pages);
        let growth = Growth::new(growth, &table);
        table.slack = growth.slack;
        let mut pages = None;
        let most = self.max_len();
        let max_len = if habits.is_smallest {
            let partition = small::choose(&table, self.arch);
            let len = fixed_len(&table) + partition.size() + split_len(&partition.pages, growth.splits);
            let mut order = Vec::with_capacity(self.entries.len());
            for entry in &self.entries {
                if let Some(at) = tentative.function(entry.function) {
                    order.push((at.0, entry.function));
                }
            }
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
            if is_exact || habits.has_pages_of_one_size {
                placed.len() + lld_split_len(growth.splits)
            } else {
                let by_pages = match layout {
                    Layout::LdPrime | Layout::LdPrime27 => placed.pages_off() + 4 + LD_PRIME_PAGE * pages,
                    Layout::Small | Layout::Lld | Layout::Ld64 | Layout::Ld64V253 | Layout::Zig => usize::MAX,
                };
                let fixed = Header::SIZE + PERSONALITY_SIZE * personalities + LsdaEntry::SIZE * lsdas;
                (fixed + max_pages_len(layout, entries)).min(by_pages)
            }
        };
        Ok(Plan { max_len: max_len.min(most), pages })
    }

    /// Sorts the entries and cuts them into pages, now that addresses are known.
    ///
    /// The closure `function_at` returns the image offset of a function by its key, and `lsda_at` returns the
    /// image offset of an LSDA. An LSDA at offset 0 counts as no LSDA, because the Mach-O header lies there.
    ///
    /// Pass in `end` the end of the code that the table covers, which is the end of `__text`. If you pass `None`, or
    /// a lower offset than the end of the last entry, the table ends with the last entry. [`Layout::Lld`] and
    /// [`Layout::Zig`] ignore `end`. [`Layout::LdPrime27`], [`Layout::Ld64`] and [`Layout::Ld64V253`] write an end that
    /// is one byte higher.
    ///
    /// # Errors
    /// This function returns [`WriteError::TooLarge`] if the table would be larger than 4 GiB.
    pub fn place(
        &self,
        end: Option<ImageOffset>,
        function_at: impl Fn(Key) -> ImageOffset,
        lsda_at: impl Fn(LsdaKey) -> ImageOffset,
    ) -> Result<Placed, WriteError> {
        self.placed(end, &Everywhere { function_at, lsda_at }, SameAddress::Last, None)
    }

    /// Does the same as [`place`](Self::place) for a linker whose functions and LSDAs may have no address,
    /// and whose FDEs have their own places. If entries share an address, the first entry with unwind
    /// information and a length counts.
    ///
    /// If you pass the [`plan`](Self::plan) of this section, the table keeps the plan's promise.
    ///
    /// # Errors
    /// The errors of [`place`](Self::place).
    pub fn place_planned(
        &self,
        plan: Option<&Plan>,
        end: Option<ImageOffset>,
        places: &impl Places,
    ) -> Result<Placed, WriteError> {
        self.placed(end, places, SameAddress::First, plan)
    }

    fn deduped(&self, places: &impl Places, same_address: SameAddress) -> DedupedEntries {
        dedup(&self.entries, self.arch, self.options.layout, places, same_address)
    }

    fn placed(
        &self,
        end: Option<ImageOffset>,
        places: &impl Places,
        same_address: SameAddress,
        plan: Option<&Plan>,
    ) -> Result<Placed, WriteError> {
        let Options { layout, .. } = self.options;
        let habits = layout.habits();
        let mut table = self.deduped(places, same_address);
        if let Some(end) = end
            && !habits.ends_with_last_entry
        {
            table.end = table.end.max(end.0);
        }
        if habits.ends_a_byte_late {
            table.end = table.end.saturating_add(1);
        }
        let partition = if !table.is_written {
            Partition { common: Vec::new(), pages: Vec::new(), exact: true }
        } else if habits.is_smallest {
            self.smallest(&table, places, plan)
        } else {
            self.linkers_partition(&table)
        };
        Placed::new(table, partition, self.arch, layout)
    }

    /// Returns the smallest table, and never a table that is larger than promised.
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

    /// Chooses palette and pages as other linkers do.
    fn linkers_partition(&self, table: &DedupedEntries) -> Partition {
        let Options { layout, eh_frame_len, .. } = self.options;
        let common = match layout {
            Layout::Small | Layout::Lld => common_palette::lld(table),
            Layout::Zig => common_palette::zig(table, self.arch),
            Layout::LdPrime | Layout::LdPrime27 | Layout::Ld64 | Layout::Ld64V253 => {
                common_palette::apple(table, self.arch)
            }
        };
        let pages = match layout {
            Layout::Small | Layout::Lld | Layout::Zig => forward(table, &common, MAX_COMPRESSED_OFFSET - 1),
            Layout::LdPrime | Layout::LdPrime27 => forward(table, &common, MAX_COMPRESSED_OFFSET),
            Layout::Ld64 => backward(table, &common, eh_frame_len, Room::AskedLate),
            Layout::Ld64V253 => backward(table, &common, eh_frame_len, Room::LessAWord),
        };
        Partition { common, pages, exact: false }
    }
}

/// Returns the most bytes of palette, index and pages that other linkers write for this number of entries.
fn max_pages_len(layout: Layout, entries: usize) -> usize {
    let pages = match layout {
        Layout::Ld64 | Layout::Ld64V253 => (entries.div_ceil(REGULAR_ENTRIES) + 2).min(entries),
        Layout::Small | Layout::Lld | Layout::LdPrime | Layout::LdPrime27 | Layout::Zig => {
            entries.div_ceil(REGULAR_ENTRIES)
        }
    };
    let fixed = ENCODING_SIZE * entries.min(MAX_COMMON) + IndexEntry::SIZE * (pages + 1);
    let regular = RegularEntry::SIZE * entries;
    let compressed = regular + CompressedPage::SIZE * pages;
    fixed
        + match layout {
            Layout::Small => compressed,
            Layout::Lld | Layout::Zig => PAGE_SIZE * pages,
            // Only the last page can have so few entries that a compressed page is larger than a regular page: by 4
            // bytes, and by 4 more bytes of padding. The padding of the first page may cost another 4 bytes.
            Layout::LdPrime | Layout::LdPrime27 => {
                regular + RegularPage::SIZE * pages + IndexEntry::SIZE + 12
            }
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

    /// The search for the smallest table hardly ever needs the pages that a promise falls back to. So they are tested
    /// here.
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
            let table = section.deduped(&moved, SameAddress::First);
            if !table.is_written {
                continue;
            }
            let bound = section.bound.as_ref().expect("layout small has one");
            let by_bound = bound.partition(&table);
            assert!(by_bound.size() <= bound.len, "{} of {}", by_bound.size(), bound.len);
            let by_plan = plan.pages.as_ref().expect("layout small has them").partition(&table, &moved);
            // A plan never promises more than the bound for any order, so the pages of this bound may keep
            // the plan's promise.
            let len = fixed_len(&table) + by_plan.size().min(by_bound.size());
            assert!(len <= plan.max_len, "{len} of {}", plan.max_len);
            by_itself += usize::from(plan.max_len < section.max_len());
            // Both partitions contain all functions.
            for partition in [by_bound, by_plan] {
                let entries: usize = partition.pages.iter().map(|page| usize::from(page.count)).sum();
                assert_eq!(entries, table.keys.len());
            }
        }
        assert!(by_itself > 100, "{by_itself} plans below the bound for any order");
    }
}
