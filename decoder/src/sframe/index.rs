//! An index over a section's functions, for more than a few lookups.

use cfipack_format::sframe::Fde;
use cfipack_format::{Address, Row};

use super::{Error, Function, Section};

/// Speeds lookups in a sorted section up, and makes those in an unsorted one quick at all.
///
/// The range from the first function's start to the last's is cut into buckets of equal size, a
/// power of two, about as many as there are functions; a bucket knows how many functions start
/// before it. The caller supplies the memory: 4 to 8 bytes a function, 4 more if the section is
/// not sorted.
///
/// | words | meaning |
/// |---|---|
/// | one a bucket, and one | functions that start before the bucket |
/// | one a function, if the section is not sorted | indexes of the functions by start |
#[derive(Clone, Copy, Debug)]
pub struct Index<'a, 'm> {
    section: Section<'a>,
    buckets: &'m [u32],
    order: &'m [u32],
    /// The first function's start, in bytes from the section's start.
    first: i64,
    shift: u32,
}

/// Where the buckets of a section lie.
struct Plan {
    first: i64,
    shift: u32,
    buckets: usize,
}

impl Plan {
    fn new(section: &Section<'_>) -> Self {
        let count = section.num_functions();
        let start = |index| section.located(index).map(|(_, start)| start);
        let (first, last) = match section.is_sorted() {
            true => (start(0), count.checked_sub(1).and_then(start)),
            false => ((0..count).filter_map(start).min(), (0..count).filter_map(start).max()),
        };
        let first = first.unwrap_or(0);
        let span = last.unwrap_or(first).wrapping_sub(first) as u64;
        let enough = 2 * count as u64;
        let shift = (0..u64::BITS - 1).find(|shift| span >> shift < enough).unwrap_or(0);
        Self { first, shift, buckets: (span >> shift) as usize + 1 }
    }
}

impl<'a, 'm> Index<'a, 'm> {
    /// Up to this many functions of a bucket are tried one by one.
    const FEW: usize = 8;

    /// Words of memory that [`Index::build`] needs.
    pub fn len_for(section: &Section<'_>) -> usize {
        let order = if section.is_sorted() { 0 } else { section.num_functions() };
        Plan::new(section).buckets + 1 + order
    }

    /// Builds the index in `memory`. Fails if that is too short, or if the section says that it is
    /// sorted and is not.
    pub fn build(section: &Section<'a>, memory: &'m mut [u32]) -> Result<Self, Error> {
        let plan = Plan::new(section);
        let len = memory.len();
        let (buckets, order) =
            memory.split_at_mut_checked(plan.buckets + 1).ok_or(Error::IndexMemory { len })?;
        let start = |index: u32| section.located(index as usize).map_or(i64::MAX, |(_, start)| start);
        let count = section.num_functions();
        let order = if section.is_sorted() {
            &mut []
        } else {
            let order = order.get_mut(..count).ok_or(Error::IndexMemory { len })?;
            order.iter_mut().zip(0..).for_each(|(slot, index)| *slot = index);
            // By index where starts are equal, as a stable sort would.
            order.sort_unstable_by_key(|&index| (start(index), index));
            order
        };
        let order: &[u32] = order;

        let (mut filled, mut previous) = (0, i64::MIN);
        for place in 0..count {
            let index = order.get(place).map_or(place, |&index| index as usize);
            let start = start(index as u32);
            if start < previous {
                return Err(Error::NotSorted { offset: section.fde_offset(index) });
            }
            previous = start;
            let bucket = (start.wrapping_sub(plan.first) as u64 >> plan.shift) as usize;
            while filled <= bucket {
                // A start behind the last one's.
                let not_sorted = Error::NotSorted { offset: section.fde_offset(index) };
                *buckets.get_mut(filled).ok_or(not_sorted)? = place as u32;
                filled += 1;
            }
        }
        buckets[filled..].fill(count as u32);
        Ok(Self { section: *section, buckets, order, first: plan.first, shift: plan.shift })
    }

    /// As [`Section::lookup`].
    #[inline]
    pub fn lookup(&self, pc: Address) -> Result<Option<Row>, Error> {
        match self.find_fde(pc) {
            Some((index, fde, offset)) => self.section.row_at(&self.section.body(index, &fde)?, offset),
            None => Ok(None),
        }
    }

    /// As [`Section::find`].
    pub fn find(&self, pc: Address) -> Result<Option<Function<'a>>, Error> {
        match self.find_fde(pc) {
            Some((index, ..)) => self.section.function(index).map(Some),
            None => Ok(None),
        }
    }

    #[inline(always)]
    fn find_fde(&self, pc: Address) -> Option<(usize, Fde, u32)> {
        let pc = pc.distance_from(self.section.address());
        if pc < self.first {
            return None;
        }
        let bucket = pc.wrapping_sub(self.first) as u64 >> self.shift;
        // A PC behind the last function's start is looked for in the last bucket.
        let bucket = bucket.min(self.buckets.len() as u64 - 2) as usize;
        let (low, high) = (self.buckets[bucket] as usize, self.buckets[bucket + 1] as usize);
        let not_after = |index: usize| self.section.located(index).is_some_and(|(_, start)| start <= pc);
        if !self.section.is_sorted() {
            let count = low + self.order[low..high].partition_point(|&index| not_after(index as usize));
            return self.section.last_that_holds(count, pc, |place| self.order[place] as usize);
        }
        // Most buckets have one function or none: guessing beats a search without branches, because
        // what comes next need not wait for the starts.
        let mut count = low;
        if high - low > Self::FEW {
            count = self.section.count_not_after(pc, low, high);
        } else {
            while count < high && not_after(count) {
                count += 1;
            }
        }
        self.section.last_that_holds(count, pc, |place| place)
    }
}
