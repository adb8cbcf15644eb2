//! The section before it has addresses.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_encoder::unwind_info as encoder;
use cfipack_encoder::unwind_info::WriteError;
use cfipack_format::compact_unwind::{DWARF_OFFSET_MAX, Encoding};
use cfipack_format::unwind_info::MAX_PERSONALITIES;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey, PersonalityKey};

use super::builder::{Builder, Personalities};
use super::places::{Addresses, Final};
use super::range::Range;
use super::{Fde, Table, Warning};

/// The unwind information of a link's live functions, each described once; it needs only addresses.
#[derive(Clone, Debug)]
pub struct Section {
    pub(super) arch: Arch,
    /// Each function once.
    pub(super) ranges: Vec<Range>,
    /// The entries know functions by their place in `ranges`, and personalities by their place in `personalities`, from
    /// 1.
    entries: encoder::Section,
    personalities: Vec<PersonalityKey>,
    warnings: Vec<Warning>,
}

impl Section {
    pub(super) fn new(builder: Builder) -> Self {
        let Builder { arch, options, ranges, personalities: Personalities { keys, .. }, mut warnings } =
            builder;
        let mut ranges = first_of_each(ranges);
        for range in ranges.iter_mut().filter(|range| range.is_dwarf(arch) && range.fde.is_none()) {
            warnings.push(Warning::NoFde { function: range.function });
            range.fall_back(arch);
        }
        drop_personalities(&mut ranges, &keys, arch, &mut warnings);
        let mut entries = encoder::Builder::new(arch, options).expect("the builder is for this architecture");
        entries.reserve(ranges.len());
        for (range, at) in ranges.iter().zip(0_u64..) {
            let personality = range.personality.and_then(|number| NonZeroU32::new(number + 1));
            let entry = encoder::Entry::new(Key(at), range.length, range.encoding);
            entries.push(encoder::Entry { personality, lsda: range.lsda, ..entry });
        }
        Self { arch, ranges, entries: entries.finish(), personalities: keys, warnings }
    }

    /// Warnings about what could not be taken as it was given.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The personalities that the table may name, at most three: each needs a pointer slot with its address.
    pub fn personalities(&self) -> impl ExactSizeIterator<Item = PersonalityKey> + '_ {
        self.entries.personalities().iter().map(|&number| self.personality(number))
    }

    /// The FDEs that the table refers to, with their functions: those that the output's `__eh_frame` must keep. Readers
    /// take any other function's unwind information from the table alone.
    pub fn fdes(&self) -> impl Iterator<Item = (Key, Fde)> + '_ {
        let in_dwarf_mode = self.ranges.iter().filter(|range| range.is_dwarf(self.arch));
        in_dwarf_mode.filter_map(|range| Some((range.function, range.fde?)))
    }

    /// The most bytes that the table can have, wherever its functions will lie and in whatever order. Where the order is
    /// known, [`plan`](Self::plan) gives the size of the likely table instead.
    pub fn max_len(&self) -> usize {
        self.entries.max_len()
    }

    /// The most bytes of the table if its functions lie in an order that the linker knows: real tables are exactly as
    /// large, as a rule.
    ///
    /// `tentative` gives every function a place in the order, in bytes: an address in a first layout, or a rank; none to
    /// a function that will have no address. `growth` bounds how much further the functions may lie apart in the end: the
    /// sum over all neighbours, in bytes. That is what may yet be inserted between functions where `tentative` gives
    /// addresses, and the length of all code where it gives ranks.
    ///
    /// The promise holds if functions have distinct addresses in this order, at least the declared distances apart; if every LSDA has an
    /// address; and, but in [`Layout::Small`](encoder::Layout::Small), if nothing that has a tentative place turns out to
    /// have no address, and FDEs lie in the order of objects as they were pushed, none beyond 16 MiB. See
    /// [`encoder::Section::plan`] for how tight it is in each layout.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
    pub fn plan(
        &self,
        tentative: impl Fn(Key) -> Option<ImageOffset>,
        growth: u32,
    ) -> Result<Plan, WriteError> {
        let places = Tentative { section: self, tentative, fdes: self.fde_ranks() };
        self.entries.plan(&places, growth).map(Plan)
    }

    /// Lays the table out, now that addresses are known. `end` is the end of the code that the table speaks for, the end
    /// of `__text`; layout `Lld` does without it, others take the end of the last function if it is not given.
    ///
    /// Of functions with different keys at one address, the first that has unwind information and is not empty counts.
    /// What has no address is omitted and named in [`Table::warnings`]. The table is not larger than
    /// [`max_len`](Self::max_len) or, if what [`plan`](Self::plan) was promised holds, than [`Plan::max_len`]. Can be
    /// called again with other addresses; nothing is read again.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
    pub fn place(
        &self,
        plan: Option<&Plan>,
        end: Option<ImageOffset>,
        addresses: &impl Addresses,
    ) -> Result<Table<'_>, WriteError> {
        let places = Final::new(self, addresses);
        let placed = self.entries.place_planned(plan.map(|plan| &plan.0), end, &places)?;
        Ok(Table { section: self, placed, warnings: places.into_warnings() })
    }

    pub(super) fn personality(&self, number: NonZeroU32) -> PersonalityKey {
        self.personalities[number.get().to_usize() - 1]
    }

    /// By range: the place of its FDE among all that the table refers to, from 1; 0 for a range without one. Objects
    /// are in the order of pushing, as in an output.
    fn fde_ranks(&self) -> Vec<u32> {
        let fde = |range: &Range| range.fde.filter(|_| range.is_dwarf(self.arch));
        let fdes = self.ranges.iter().zip(0_usize..).filter_map(|(range, at)| Some((fde(range)?, at)));
        let mut fdes: Vec<(Fde, usize)> = fdes.collect();
        for of_object in fdes.chunk_by_mut(|(a, _), (b, _)| a.object == b.object) {
            of_object.sort_by_cached_key(|(fde, _)| fde.offset.0.to_u64());
        }
        let mut ranks = vec![0; self.ranges.len()];
        for ((_, at), rank) in fdes.into_iter().zip(1..) {
            ranks[at] = rank;
        }
        ranks
    }
}

/// The most bytes that a table has if its functions lie in a known order: see [`Section::plan`].
#[derive(Clone, Debug)]
pub struct Plan(encoder::Plan);

impl Plan {
    /// The most bytes, as long as what [`Section::plan`] was promised holds.
    pub fn max_len(&self) -> usize {
        self.0.max_len()
    }
}

/// Places in an order that is known, and FDEs in theirs.
struct Tentative<'a, F> {
    section: &'a Section,
    tentative: F,
    fdes: Vec<u32>,
}

impl<F: Fn(Key) -> Option<ImageOffset>> encoder::Places for Tentative<'_, F> {
    fn function(&self, range: Key) -> Option<ImageOffset> {
        (self.tentative)(self.section.ranges[range.0.to_usize()].function)
    }

    fn lsda(&self, _: LsdaKey) -> Option<ImageOffset> {
        Some(ImageOffset(1))
    }

    fn dwarf(&self, range: Key, encoding: Encoding) -> Encoding {
        // Of 2^24 or more, all are in reach only if they are close together.
        match self.fdes[range.0.to_usize()] {
            rank @ ..=DWARF_OFFSET_MAX => Encoding(encoding.0 | rank),
            _ => encoding,
        }
    }
}

/// Of each function, keeps the first description that has unwind information, or just the first one.
fn first_of_each(mut ranges: Vec<Range>) -> Vec<Range> {
    if ranges.is_sorted_by(|a, b| a.function < b.function) {
        return ranges;
    }
    let key = |at: u32| ranges[at.to_usize()].function;
    let mut order: Vec<u32> = (0..ranges.len() as u32).collect();
    order.sort_by_cached_key(|&at| u64::from(!ranges[at.to_usize()].has_information()));
    order.sort_by_cached_key(|&at| key(at).0);
    let mut is_kept = vec![false; ranges.len()];
    for of_function in order.chunk_by(|&a, &b| key(a) == key(b)) {
        is_kept[of_function[0].to_usize()] = true;
    }
    let mut is_kept = is_kept.into_iter();
    ranges.retain(|_| is_kept.next() == Some(true));
    ranges
}

/// The uses of a personality outside DWARF mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Uses {
    /// By functions without FDE, which would have no unwind information otherwise.
    without_fde: u32,
    with_fde: u32,
}

/// Leaves functions of all but three personalities to their FDEs. Those stay that most functions need which have no
/// FDE, then those that most functions use, then those that come first.
fn drop_personalities(
    ranges: &mut [Range],
    keys: &[PersonalityKey],
    arch: Arch,
    warnings: &mut Vec<Warning>,
) {
    let mut uses = vec![Uses::default(); keys.len()];
    for range in ranges.iter().filter(|range| !range.is_dwarf(arch)) {
        let Some(number) = range.personality else { continue };
        let uses = &mut uses[number.to_usize()];
        if range.fde.is_some() { uses.with_fde += 1 } else { uses.without_fde += 1 }
    }
    let mut ranked: Vec<u32> =
        (0..).zip(&uses).filter(|used| *used.1 != Uses::default()).map(|used| used.0).collect();
    if ranked.len() <= MAX_PERSONALITIES {
        return;
    }
    ranked.sort_by_cached_key(|&number| {
        let Uses { without_fde, with_fde } = uses[number.to_usize()];
        u64::from(!without_fde) << 32 | u64::from(!with_fde)
    });
    let named = &ranked[..MAX_PERSONALITIES];
    for range in ranges.iter_mut().filter(|range| !range.is_dwarf(arch)) {
        let Some(number) = range.personality.filter(|number| !named.contains(number)) else { continue };
        let Range { function, fde, .. } = *range;
        let personality = keys[number.to_usize()];
        warnings.push(Warning::PersonalityOverflow { function, personality, fde });
        range.fall_back(arch);
    }
}
