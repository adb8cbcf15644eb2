//! Finds functions that get their addresses when the section is written, and then turn out to share PCs.
//!
//! The size of the section is fixed by then, so an entry either stays as it is or is removed. An entry is
//! removed if another function starts inside it or at its start. The remaining entries move together, and zeros
//! fill the rest of the index.

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use cfipack_format::pool::{Pool, map, part_len};
use cfipack_format::sframe::{Attribute, Fde, Version};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Endian, Key};

/// The result of writing a section.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Written {
    /// Functions that turned out to share PCs with other functions, and have no rows in the section.
    pub conflicts: Vec<Conflict>,
}

/// A function that a section omits, because another function starts inside it or at its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct Conflict {
    /// The function that has no rows.
    pub function: Key,
    /// The other function.
    pub other: Key,
}

/// The place of a function that may share PCs with another function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Shared {
    /// The distance from the section.
    pub(crate) start: i64,
    pub(crate) size: u32,
    /// The offset of its rows, or `None` for a function without an entry.
    pub(crate) rows: Option<u32>,
}

/// An entry that is removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clash {
    rank: usize,
    pub(crate) function: Shared,
    /// The function that starts inside the entry. It is the entry itself if another entry has the same rows.
    pub(crate) other: Shared,
}

/// The index of a linked section.
pub(crate) struct Index<'o> {
    pub(crate) fdes: &'o mut [u8],
    /// The offset of the index in the section.
    pub(crate) at: usize,
    pub(crate) version: Version,
    pub(crate) endian: Endian,
}

/// With fewer entries, a thread costs more than it saves.
const LEAST_OF_A_THREAD: usize = 1 << 11;

impl Shared {
    fn end(&self) -> i64 {
        self.start.saturating_add(self.size.into())
    }

    /// Returns the address of the function if the section lies at `section`.
    pub(crate) fn address(&self, section: Address) -> Address {
        Address(section.0.wrapping_add(self.start as u64))
    }
}

impl Index<'_> {
    /// Returns the entries of a range that have code, with their ranks. An entry of this version has `N` bytes.
    #[inline(always)]
    fn entries<const N: usize>(
        &self,
        version: Version,
        ranks: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (usize, Shared)> {
        let (fdes, _) = self.fdes.as_chunks::<N>();
        let entries = fdes[ranks.clone()].iter().zip(ranks).filter_map(move |(bytes, rank)| {
            let Fde { start, size, fre_off, .. } = Fde::read(bytes, version, self.endian)?;
            let field = if version.has_attributes() { self.at + rank * N } else { 0 };
            let function = Shared { start: start.wrapping_add(field as i64), size, rows: Some(fre_off) };
            Some((rank, function))
        });
        // A function without code has no PC to share.
        entries.filter(|(_, function)| function.size != 0)
    }

    /// Returns the entries that must be removed, in order. `omitted` are the functions without entries. `same`
    /// compares the rows at two offsets.
    pub(crate) fn clashes(
        &self,
        pool: &dyn Pool,
        omitted: &mut Vec<Shared>,
        same: impl Fn(u32, u32) -> bool + Sync,
    ) -> Vec<Clash> {
        omitted.retain(|omitted| omitted.size != 0);
        omitted.sort_unstable();
        let omitted = &**omitted;
        let count = self.fdes.len() / self.version.fde_size();
        let part_len = part_len(pool, count, LEAST_OF_A_THREAD);
        let parts = (0..count).step_by(part_len).map(|first| first..count.min(first + part_len));
        let found = map(pool, parts.collect(), |part| match self.version {
            Version::V3 => self.clashes_of::<{ Version::V3.fde_size() }>(Version::V3, part, omitted, &same),
            // Version 1 is not written.
            Version::V1 | Version::V2 => {
                self.clashes_of::<{ Version::V2.fde_size() }>(Version::V2, part, omitted, &same)
            }
        });
        let mut clashes = found.concat();
        clashes.sort_by_cached_key(|clash| clash.rank as u64);
        clashes.dedup_by_key(|clash| clash.rank);
        clashes
    }

    /// Finds the clashes of entries with the entry before them and with omitted functions.
    #[inline(always)]
    fn clashes_of<const N: usize>(
        &self,
        version: Version,
        ranks: Range<usize>,
        omitted: &[Shared],
        same: &impl Fn(u32, u32) -> bool,
    ) -> Vec<Clash> {
        let mut clashes: Vec<Clash> = Vec::new();
        let mut before = self.entries::<N>(version, 0..ranks.start).next_back();
        let mut reached = before.map_or(i64::MIN, |(_, before)| before.end());
        let mut entries = self.entries::<N>(version, ranks.clone());
        // Nearly always, the entries are in order and nothing was omitted.
        if omitted.is_empty()
            && entries.all(|(_, function)| function.start >= mem::replace(&mut reached, function.end()))
        {
            return Vec::new();
        }
        for (rank, function) in self.entries::<N>(version, ranks) {
            if let Some((rank_before, before)) = before
                && function.start < before.end()
            {
                let is_twin = (before.start, before.size) == (function.start, function.size)
                    && before.rows.zip(function.rows).is_some_and(|(one, two)| same(one, two));
                let other = if is_twin { before } else { function };
                clashes.push(Clash { rank: rank_before, function: before, other });
                if before.start == function.start && !is_twin {
                    clashes.push(Clash { rank, function, other: before });
                }
            }
            before = Some((rank, function));
            if !omitted.is_empty() {
                let first = omitted.partition_point(|omitted| omitted.start < function.start);
                let other = omitted.get(first).filter(|omitted| omitted.start < function.end());
                clashes.extend(other.map(|&other| Clash { rank, function, other }));
            }
        }
        clashes
    }

    /// Removes entries, given in order. Returns how many rows they have. Version 3 has the counts of rows in
    /// `fres`.
    pub(crate) fn remove(&mut self, clashes: &[Clash], fres: &[u8]) -> u64 {
        let size = self.version.fde_size();
        let (mut clashes, mut removed, mut num_fres) = (clashes.iter().peekable(), 0, 0);
        for rank in 0..self.fdes.len() / size {
            let from = rank * size;
            let Some(mut fde) = Fde::read(&self.fdes[from..from + size], self.version, self.endian) else {
                continue;
            };
            if clashes.next_if(|clash| clash.rank == rank).is_some() {
                removed += size;
                num_fres += u64::from(self.num_fres(&fde, fres));
            } else if removed != 0 {
                if self.version.has_attributes() {
                    fde.start = fde.start.wrapping_add(removed as i64);
                }
                let bytes = fde.write(self.version, self.endian);
                self.fdes[from - removed..][..size].copy_from_slice(&bytes[..size]);
            }
        }
        let left = self.fdes.len() - removed;
        self.fdes[left..].fill(0);
        num_fres
    }

    fn num_fres(&self, fde: &Fde, fres: &[u8]) -> u32 {
        if !self.version.has_attributes() {
            return fde.num_fres;
        }
        let attribute = fres.get(fde.fre_off.to_usize()..).and_then(<[u8]>::first_chunk);
        attribute.map_or(0, |attribute| Attribute::read(attribute, self.endian).num_fres.into())
    }
}
