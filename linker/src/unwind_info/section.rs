//! [`Section`]: the section before it has addresses.

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
use super::places::{Addresses, FinalPlaces};
use super::range::Range;
use super::{Fde, Table, Warning};

/// The unwind information of a link's live functions, with one description per function. It lacks only addresses.
#[derive(Clone, Debug)]
pub struct Section {
    pub(super) arch: Arch,
    pub(super) layout: encoder::Layout,
    /// One range per function.
    pub(super) ranges: Vec<Range>,
    /// In these entries, a function's key is its index in `ranges`, and a personality's number is its index in
    /// `personalities` plus 1.
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
        Self {
            arch,
            layout: options.layout,
            ranges,
            entries: entries.finish(),
            personalities: keys,
            warnings,
        }
    }

    /// Returns warnings about parts of the objects that the table cannot hold as given.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the personalities that the table may name, at most three. Each personality needs a pointer slot that
    /// holds its address.
    pub fn personalities(&self) -> impl ExactSizeIterator<Item = PersonalityKey> + '_ {
        self.entries.personalities().iter().map(|&number| self.personality(number))
    }

    /// Returns the FDEs that the table refers to, with their functions. The output's `__eh_frame` must keep these
    /// FDEs. For every other function, readers use only the table.
    pub fn fdes(&self) -> impl Iterator<Item = (Key, Fde)> + '_ {
        let in_dwarf_mode = self.ranges.iter().filter(|range| range.is_dwarf(self.arch));
        in_dwarf_mode.filter_map(|range| Some((range.function, range.fde?)))
    }

    /// Returns an upper bound of the table's size in bytes, for any order and any addresses of the functions. If you
    /// know the order, use [`plan`](Self::plan), which returns the size of the likely table.
    pub fn max_len(&self) -> usize {
        self.entries.max_len()
    }

    /// Computes an upper bound of the table's size for an order of the functions that you know already. The size of
    /// real tables is nearly always exactly this bound.
    ///
    /// `tentative` returns a function's place in bytes, for example its address in a first layout, or its rank. It
    /// returns `None` for a function that will have no address. `growth` bounds how much further apart the functions
    /// may lie in the final layout, in bytes and summed over all neighbours. With addresses, pass the number of bytes
    /// that may still be inserted between functions. With ranks, pass the length of all code.
    ///
    /// The bound holds under these conditions:
    ///
    /// - Functions have distinct addresses in this order, and are further apart than their tentative places by at
    ///   most `growth`.
    /// - Every LSDA has an address.
    /// - In layouts other than [`Layout::Small`](encoder::Layout::Small), every function with a tentative place also
    ///   gets an address.
    /// - In these layouts FDEs also lie in the order in which you pushed the objects, within the first 16 MiB.
    ///
    /// [`encoder::Section::plan`] says how tight the bound is in each layout.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
    pub fn plan(
        &self,
        tentative: impl Fn(Key) -> Option<ImageOffset>,
        growth: u32,
    ) -> Result<Plan, WriteError> {
        let places = TentativePlaces { section: self, tentative, fdes: self.fde_ranks() };
        self.entries.plan(&places, growth).map(Plan)
    }

    /// Lays the table out for final addresses. `end` is the end of the code that the table covers, which is the end
    /// of `__text`. Layout `Lld` ignores `end`; other layouts use the end of the last function if you pass `None`.
    ///
    /// If functions with different keys have the same address, the first function that has unwind information and is
    /// not empty counts. A function or LSDA without an address is omitted, and [`Table::warnings`] names it. The
    /// table is not larger than [`max_len`](Self::max_len), or [`Plan::max_len`] under the conditions of
    /// [`plan`](Self::plan). You can call this function again with other addresses. It reads no input again.
    ///
    /// # Errors
    /// The table would be larger than 4 GiB.
    pub fn place(
        &self,
        plan: Option<&Plan>,
        end: Option<ImageOffset>,
        addresses: &impl Addresses,
    ) -> Result<Table<'_>, WriteError> {
        let places = FinalPlaces::new(self, addresses);
        let placed = self.entries.place_planned(plan.map(|plan| &plan.0), end, &places)?;
        Ok(Table { section: self, placed, warnings: places.into_warnings() })
    }

    pub(super) fn personality(&self, number: NonZeroU32) -> PersonalityKey {
        self.personalities[number.get().to_usize() - 1]
    }

    /// Returns the rank of each range's FDE among the FDEs that the table refers to, from 1, or 0 for a range without
    /// an FDE. FDEs are ordered by object, in the order of pushing, as in an output.
    fn fde_ranks(&self) -> Vec<u32> {
        let mut fdes: Vec<(Fde, usize)> = Vec::new();
        for (at, range) in self.ranges.iter().enumerate() {
            if let Some(fde) = range.fde
                && range.is_dwarf(self.arch)
            {
                fdes.push((fde, at));
            }
        }
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

/// An upper bound of a table's size for a known order of its functions. [`Section::plan`] returns it.
#[derive(Clone, Debug)]
pub struct Plan(encoder::Plan);

impl Plan {
    /// Returns the bound in bytes. It holds under the conditions of [`Section::plan`].
    pub fn max_len(&self) -> usize {
        self.0.max_len()
    }
}

/// Tentative places of the functions and ranks of the FDEs, for a plan.
struct TentativePlaces<'a, F> {
    section: &'a Section,
    tentative: F,
    fdes: Vec<u32>,
}

impl<F: Fn(Key) -> Option<ImageOffset>> encoder::Places for TentativePlaces<'_, F> {
    fn function(&self, range: Key) -> Option<ImageOffset> {
        (self.tentative)(self.section.ranges[range.0.to_usize()].function)
    }

    fn lsda(&self, _: LsdaKey) -> Option<ImageOffset> {
        Some(ImageOffset(1))
    }

    fn dwarf(&self, range: Key, encoding: Encoding) -> Encoding {
        // With 2^24 FDEs or more, later FDEs are out of reach.
        match self.fdes[range.0.to_usize()] {
            rank @ ..=DWARF_OFFSET_MAX => Encoding(encoding.0 | rank),
            _ => encoding,
        }
    }
}

/// Keeps one description per function: the first description that has unwind information, otherwise the first
/// description.
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

/// Counts the functions that use a personality and are not in DWARF mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Uses {
    /// Functions without an FDE. Without the personality, they would lose their unwind information.
    without_fde: u32,
    with_fde: u32,
}

/// Keeps the three most needed personalities and switches the functions of all others to their FDEs. A personality is
/// needed more if more functions without an FDE use it, then if more functions use it at all, then if it comes first.
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
    let mut ranked: Vec<u32> = (0..keys.len() as u32).collect();
    ranked.retain(|&number| uses[number.to_usize()] != Uses::default());
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
