//! FDEs in the order of their addresses.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::Address;

use super::builder::Entry;

/// Puts FDEs of `N` bytes into the order of their functions' signed distances from the section, which
/// is how starts are stored; equal ones stay in the order of their entries.
///
/// Functions of one image are spread about evenly, so a bucket for every few of them takes most of the
/// work: an FDE is written once, and then moved, if at all, to a place next to it.
pub(super) struct Order<'e> {
    entries: &'e [Entry],
    section: Address,
    is_sorted: bool,
    /// The least key.
    least: u64,
    /// Bits by which keys of one bucket differ.
    shift: u32,
    buckets: usize,
}

/// As many ranks as fit a processor's first-level cache.
const MAX_BUCKET_BITS: u32 = 15;

impl<'e> Order<'e> {
    pub(super) fn new(entries: &'e [Entry], section: Address) -> Self {
        let (mut least, mut greatest, mut last, mut is_sorted) = (u64::MAX, 0, 0, true);
        for entry in entries {
            let key = key(section, entry);
            is_sorted &= last <= key;
            (least, greatest, last) = (least.min(key), greatest.max(key), key);
        }
        let spread = greatest.saturating_sub(least);
        let bits = (entries.len() as u64).checked_ilog2().unwrap_or(0).min(MAX_BUCKET_BITS);
        let shift = (u64::BITS - spread.leading_zeros()).saturating_sub(bits);
        let buckets = (spread >> shift) as usize + 1;
        Self { entries, section, is_sorted, least, shift, buckets }
    }

    /// Writes all FDEs: `fde` gives that of an entry, `start` reads its start again.
    pub(super) fn write<const N: usize, E>(
        &self,
        out: &mut [[u8; N]],
        mut fde: impl FnMut(&Entry) -> Result<[u8; N], E>,
        start: impl Fn(&[u8; N]) -> i64,
    ) -> Result<(), E> {
        if self.is_sorted {
            return out.iter_mut().zip(self.entries).try_for_each(|(slot, entry)| {
                *slot = fde(entry)?;
                Ok(())
            });
        }
        let mut ends = self.bucket_starts();
        for entry in self.entries {
            let rank = &mut ends[self.bucket(entry)];
            out[*rank as usize] = fde(entry)?;
            *rank += 1;
        }
        // Each bucket's start has become its end.
        let mut from = 0;
        for end in ends {
            let bucket = &mut out[from as usize..end as usize];
            if !bucket.is_sorted_by_key(&start) {
                bucket.sort_by_key(&start);
            }
            from = end;
        }
        Ok(())
    }

    #[inline]
    fn bucket(&self, entry: &Entry) -> usize {
        ((key(self.section, entry) - self.least) >> self.shift) as usize
    }

    fn bucket_starts(&self) -> Vec<u32> {
        let mut starts = vec![0u32; self.buckets];
        self.entries.iter().for_each(|entry| starts[self.bucket(entry)] += 1);
        let mut rank = 0;
        for start in &mut starts {
            rank += core::mem::replace(start, rank);
        }
        starts
    }
}

/// The distance from the section, from 0 for the most negative.
#[inline]
fn key(section: Address, entry: &Entry) -> u64 {
    entry.start.wrapping_sub(section.0) ^ 1 << 63
}
