//! An index over the functions of a section, for more than a few lookups.

use cfipack_format::sframe::Fde;
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Row};

use super::widest::Widest;
use super::{Error, Frame, Function, Section};

/// Makes lookups in a sorted section about twice as fast. In an unsorted section, a lookup without an index
/// tries every function; with an index it is as fast as in a sorted section.
///
/// Build an index if you look up many PCs in the same section. You supply the memory: 14 to 16 bytes per
/// function, and 4 more if the section is not sorted. [`Index::len_for`] returns the exact length.
///
/// The index cuts the range from the first function's start to the last function's start into buckets of equal
/// size. The size is a power of two, and there are at least half as many buckets as functions. For each bucket,
/// the index stores how many functions start before it. For each function, it stores the start and the widest
/// row, which is the row for the most PCs of the function. Most lookups read nothing else.
///
/// | words | meaning |
/// |---|---|
/// | 1 per bucket, and 1 more | number of functions that start before the bucket |
/// | 3 per function, and 12 more | start in bytes from the first function's start, saturated; FRE offset; widest row |
/// | 1 per function if the section is not sorted | indexes of the functions in order of their start |
///
/// ```
/// use cfipack_decoder::sframe::{Index, Section};
/// use cfipack_format::Address;
///
/// // A function with a frame pointer at 0x1000: push rbp; mov rbp, rsp; nop; pop rbp; ret.
/// let table = [
///     0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 4, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, // header
///     0xe4, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, // index
///     4, 0, 0, 0, 0, 0, 3, 8, 1, 5, 16, 0xf0, 4, 4, 16, 0xf0, 6, 5, 8, 0xf0, // rows
/// ];
/// let section = Section::parse(&table, Address(0x2000))?;
/// let mut memory = vec![0; Index::len_for(&section)];
/// let index = Index::build(&section, &mut memory)?;
/// for pc in 0xff0..0x1010 {
///     assert_eq!(index.lookup_frame(Address(pc))?, section.lookup_frame(Address(pc))?);
/// }
/// # Ok::<(), cfipack_decoder::sframe::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Index<'a, 'm> {
    section: Section<'a>,
    buckets: &'m [u32],
    /// The functions in order of their start, then [`TRIED`] entries that start after every PC.
    functions: &'m [[u32; 3]],
    order: &'m [u32],
    /// The first function's start, in bytes from the section's start.
    first: i64,
    shift: u32,
}

/// The layout of the buckets.
struct Plan {
    first: i64,
    shift: u32,
    buckets: usize,
}

impl Plan {
    fn new(section: &Section<'_>) -> Self {
        let count = section.num_functions();
        let start = |index| section.located(index).map(|(_, start)| start);
        let (first, last) = if section.is_sorted() {
            (start(0), count.checked_sub(1).and_then(start))
        } else {
            ((0..count).filter_map(start).min(), (0..count).filter_map(start).max())
        };
        let first = first.unwrap_or(0);
        let span = saturated(last.unwrap_or(first), first);
        let shift = (0..u32::BITS).find(|shift| (span >> shift).to_usize() <= count).unwrap_or(0);
        Self { first, shift, buckets: (span >> shift).to_usize() + 1 }
    }
}

/// Returns a start in bytes from the first start. Lookups never use a PC at the greatest value.
#[inline(always)]
fn saturated(start: i64, first: i64) -> u32 {
    u32::try_from(start.wrapping_sub(first) as u64).unwrap_or(u32::MAX)
}

/// The number of functions that a lookup compares at a time, without a branch.
const TRIED: usize = 4;

impl<'a, 'm> Index<'a, 'm> {
    /// Returns the number of words of memory that [`Index::build`] needs.
    pub fn len_for(section: &Section<'_>) -> usize {
        let count = section.num_functions();
        let order = if section.is_sorted() { 0 } else { count };
        Plan::new(section).buckets + 1 + 3 * (count + TRIED) + order
    }

    /// Builds the index in `memory`. This reads the index of the section once, and at most 256 FREs of each
    /// function.
    ///
    /// # Errors
    /// `memory` is too short, or the section is declared sorted and is not sorted.
    pub fn build(section: &Section<'a>, memory: &'m mut [u32]) -> Result<Self, Error> {
        let plan = Plan::new(section);
        let count = section.num_functions();
        let too_short = Error::IndexMemory { len: memory.len() };
        let (buckets, memory) = memory.split_at_mut_checked(plan.buckets + 1).ok_or(too_short)?;
        let (functions, order) = memory.split_at_mut_checked(3 * (count + TRIED)).ok_or(too_short)?;
        let (functions, _) = functions.as_chunks_mut();
        let order = if section.is_sorted() {
            &mut []
        } else {
            let order = order.get_mut(..count).ok_or(too_short)?;
            for (slot, index) in order.iter_mut().zip(0..) {
                *slot = index;
            }
            // Functions with equal starts stay in the order of their index, as in a stable sort.
            order.sort_unstable_by_key(|&index| match section.located(index.to_usize()) {
                Some((_, start)) => (start, index),
                None => (i64::MAX, index),
            });
            order
        };
        let order: &[u32] = order;

        let (mut filled, mut previous) = (0, i64::MIN);
        for (place, function) in functions.iter_mut().take(count).enumerate() {
            let index = order.get(place).map_or(place, |&index| index.to_usize());
            let not_sorted = Error::NotSorted { offset: section.fde_offset(index) };
            let (fde, start) = section.located(index).ok_or(Error::NoFunction { index })?;
            if start < previous {
                return Err(not_sorted);
            }
            previous = start;
            let start = saturated(start, plan.first);
            let widest = section.widest_row(index, &fde).unwrap_or(Widest::NONE);
            *function = [start, fde.fre_off, widest.0];
            let bucket = (start >> plan.shift).to_usize();
            while filled <= bucket {
                // A start after the last function's start has no bucket.
                *buckets.get_mut(filled).ok_or(not_sorted)? = place as u32;
                filled += 1;
            }
        }
        functions[count..].fill([u32::MAX; 3]);
        buckets[filled..].fill(count as u32);
        Ok(Self { section: *section, buckets, functions, order, first: plan.first, shift: plan.shift })
    }

    /// Returns the section that this index belongs to.
    #[inline]
    pub fn section(&self) -> &Section<'a> {
        &self.section
    }

    /// Finds the row for a PC, like [`Section::lookup`].
    ///
    /// # Errors
    /// The errors of [`Section::lookup`].
    #[inline]
    pub fn lookup(&self, pc: Address) -> Result<Option<Row>, Error> {
        Ok(self.lookup_frame(pc)?.map(|frame| frame.row))
    }

    /// Finds the frame for a PC, like [`Section::lookup_frame`].
    ///
    /// # Errors
    /// The errors of [`Section::lookup`].
    #[inline]
    pub fn lookup_frame(&self, pc: Address) -> Result<Option<Frame>, Error> {
        let Some(start) = self.start_of(pc) else { return self.lookup_far(pc) };
        let count = self.count_not_after(start);
        if let Some(&[first, fre_off, widest]) = self.functions.get(count.wrapping_sub(1)) {
            let (offset, widest) = (start.wrapping_sub(first), Widest(widest));
            if offset < widest.end()
                && let Some(fre) = self.section.fres.get(fre_off.to_usize() + widest.at().to_usize()..)
                && let Some(row) = self.section.default_row(fre, widest.fre_type())
                && row.start.0 <= offset
            {
                // A signal frame has no widest row.
                return Ok(Some(Frame { row, is_signal_frame: false }));
            }
        }
        self.lookup_other(pc, count)
    }

    /// Looks up a PC that the widest row does not cover. `count` functions start at or before the PC.
    #[inline(never)]
    fn lookup_other(&self, pc: Address, count: usize) -> Result<Option<Frame>, Error> {
        let last = count.wrapping_sub(1);
        if let (Some(&[first, fre_off, _]), Some(start)) = (self.functions.get(last), self.start_of(pc)) {
            let (index, offset) = (self.index_at(last), start.wrapping_sub(first));
            if let Some(fde) = self.section.fde(index).filter(|fde| offset < fde.size) {
                // The FDE has the same FRE offset. With the offset from the index, the scan need not wait for
                // the FDE.
                let fde = Fde { fre_off, ..fde };
                return self.section.frame_at(&self.section.body(index, &fde)?, offset);
            }
        }
        self.lookup_far(pc)
    }

    /// Looks up a PC at any distance from the section.
    #[cold]
    fn lookup_far(&self, pc: Address) -> Result<Option<Frame>, Error> {
        match self.find_fde(pc) {
            Some((index, fde, offset)) => self.section.frame_at(&self.section.body(index, &fde)?, offset),
            None => Ok(None),
        }
    }

    /// Finds the function that contains a PC, like [`Section::find`].
    ///
    /// # Errors
    /// The errors of [`Section::find`].
    pub fn find(&self, pc: Address) -> Result<Option<Function<'a>>, Error> {
        match self.find_fde(pc) {
            Some((index, fde, _)) => self.section.function_of(index, fde).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the FDE that contains the PC, its index, and the PC's offset in the function.
    fn find_fde(&self, pc: Address) -> Option<(usize, Fde, u32)> {
        let count = match self.start_of(pc) {
            Some(start) => self.count_not_after(start),
            None => self.count_not_after_far(pc),
        };
        self.section
            .last_that_holds(count, pc.distance_from(self.section.address()), |place| self.index_at(place))
    }

    /// Returns the index of the function at this place in order of address.
    #[inline]
    fn index_at(&self, place: usize) -> usize {
        self.order.get(place).map_or(place, |&index| index.to_usize())
    }

    /// Returns the PC in bytes from the first function's start. Returns `None` before this start, and 4 GiB or
    /// more after it.
    #[inline(always)]
    fn start_of(&self, pc: Address) -> Option<u32> {
        let pc = pc.distance_from(self.section.address());
        let start = saturated(pc, self.first);
        (pc >= self.first && start != u32::MAX).then_some(start)
    }

    /// Returns the number of functions that start at or before the PC.
    #[inline(always)]
    fn count_not_after(&self, pc: u32) -> usize {
        // A PC after the last function's start belongs to the last bucket.
        let bucket = (pc >> self.shift).to_usize().min(self.buckets.len() - 2);
        let mut count = self.buckets[bucket].to_usize();
        // Compares a few starts at a time. A CPU predicts the loop well, so the next loads need not wait for
        // the starts.
        for _ in 0..8 {
            let rest = self.functions.get(count..).unwrap_or_default();
            let Some(near) = rest.first_chunk::<TRIED>() else { break };
            let not_after = near.iter().filter(|&&[start, ..]| start <= pc).count();
            count += not_after;
            if not_after < TRIED {
                return count;
            }
        }
        let crowd = self.functions.get(count..self.buckets[bucket + 1].to_usize()).unwrap_or_default();
        count + crowd.partition_point(|&[start, ..]| start <= pc)
    }

    /// Counts the functions that start at or before a PC at any distance.
    #[cold]
    fn count_not_after_far(&self, pc: Address) -> usize {
        let pc = pc.distance_from(self.section.address());
        let (mut low, mut high) = (0, self.section.num_functions());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.section.located(self.index_at(middle)) {
                Some((_, start)) if start <= pc => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }
}
