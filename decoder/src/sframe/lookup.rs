//! From a PC to its row.
//!
//! The search over the index has no branch that depends on the data, and the scan over the FREs
//! only skips: it reads a start and an info byte of each, and decodes the one that answers.

use cfipack_format::sframe::{Fde, FdeType, FreInfo, FreType, Version};
use cfipack_format::{Address, Row};

use super::fde::Body;
use super::{Error, Function, Section};

impl<'a> Section<'a> {
    /// The function that has the PC: by searching the index if it is sorted, else by trying each.
    /// Functions of size 0 have no PC.
    ///
    /// Where functions overlap without starting together, the last that starts at or before the PC
    /// decides. A sorted index that is not sorted gives wrong answers: see [`Section::validate`].
    pub fn find(&self, pc: Address) -> Result<Option<Function<'a>>, Error> {
        match self.find_fde(pc) {
            Some((index, ..)) => self.function(index).map(Some),
            None => Ok(None),
        }
    }

    /// The row that answers for the PC, its start counted from the start of its function (PC-mask:
    /// of the repetition that has the PC).
    #[inline]
    pub fn lookup(&self, pc: Address) -> Result<Option<Row>, Error> {
        match self.find_fde(pc) {
            Some((index, fde, offset)) => self.row_at(&self.body(index, &fde)?, offset),
            None => Ok(None),
        }
    }

    /// The row at `offset` in a function, which is within its size.
    #[inline(always)]
    pub(super) fn row_at(&self, body: &Body<'_>, offset: u32) -> Result<Option<Row>, Error> {
        let target = if body.is_pc_mask() { offset % body.repetition()? } else { offset };
        let (fres, num, endian) = (body.fres, body.num_fres, self.endian());
        let found = match body.fre_type {
            FreType::Addr1 => scan(fres, num, target, |&[byte]| u32::from(byte)),
            FreType::Addr2 => scan(fres, num, target, |&bytes| u32::from(endian.u16(bytes))),
            FreType::Addr4 => scan(fres, num, target, |&bytes| endian.u32(bytes)),
        };
        match found {
            Some(None) => Ok(None),
            Some(Some(at)) => {
                if body.fde_type == FdeType::Default
                    && let Some(row) = self.default_row(fres.get(at..).unwrap_or_default(), body.fre_type)
                {
                    return Ok(Some(row));
                }
                self.any_row(body, at, target)
            }
            None => self.row_error(body, target),
        }
    }

    /// The FDE that has the PC, its index, and the PC's offset in it.
    #[inline(always)]
    fn find_fde(&self, pc: Address) -> Option<(usize, Fde, u32)> {
        let pc = pc.distance_from(self.address());
        if !self.is_sorted() {
            return (0..self.num_functions()).find_map(|index| {
                let (fde, start) = self.located(index)?;
                Some((index, fde, offset_in(pc, start, fde.size)?))
            });
        }
        let count = self.count_not_after(pc, 0, self.num_functions());
        self.last_that_holds(count, pc, |place| place)
    }

    /// Of the first `count` functions in order of address, the last that has the PC. `index` turns
    /// a place in that order into an index.
    #[inline(always)]
    pub(super) fn last_that_holds(
        &self,
        count: usize,
        pc: i64,
        index: impl Fn(usize) -> usize,
    ) -> Option<(usize, Fde, u32)> {
        let last = index(count.checked_sub(1)?);
        let (fde, start) = self.located(last)?;
        match offset_in(pc, start, fde.size) {
            Some(offset) => Some((last, fde, offset)),
            None => self.look_back(count, pc, index),
        }
    }

    /// The same with a look at the functions before the last: over those of size 0, and among
    /// those that start together.
    #[cold]
    #[inline(never)]
    fn look_back(&self, count: usize, pc: i64, index: impl Fn(usize) -> usize) -> Option<(usize, Fde, u32)> {
        let mut deciding = None;
        for place in (0..count).rev() {
            let (fde, start) = self.located(index(place))?;
            if fde.size == 0 {
                continue;
            }
            if start != *deciding.get_or_insert(start) {
                return None;
            }
            if let Some(offset) = offset_in(pc, start, fde.size) {
                return Some((index(place), fde, offset));
            }
        }
        None
    }

    /// An FDE and its function's start in bytes from the section's start.
    #[inline(always)]
    pub(super) fn located(&self, index: usize) -> Option<(Fde, i64)> {
        let fde = self.fde(index)?;
        Some((fde, self.relative_start(index, &fde)))
    }

    /// How many functions of a sorted index start at or before the PC, of which it is known that
    /// the first `low` do, and none from `high` on.
    #[inline(always)]
    pub(super) fn count_not_after(&self, pc: i64, low: usize, high: usize) -> usize {
        match self.version {
            Version::V1 => self.search::<17>(pc, low, high, |b| i64::from(self.start32(b))),
            Version::V2 => self.search::<20>(pc, low, high, |b| i64::from(self.start32(b))),
            Version::V3 => self.search::<16>(pc, low, high, |b| self.start64(b)),
        }
    }

    /// The search, `N` being the size of an FDE. No branch depends on a start, since nobody could
    /// predict it.
    #[inline(always)]
    fn search<const N: usize>(
        &self,
        pc: i64,
        low: usize,
        high: usize,
        start: impl Fn(&[u8; N]) -> i64,
    ) -> usize {
        let (fdes, _) = self.index.as_chunks::<N>();
        let relative = if self.is_pc_relative() { !0 } else { 0 };
        let not_after = |i: usize, fde: &[u8; N]| {
            let field = (self.index_offset + N * i) & relative;
            start(fde).wrapping_add(field as i64) <= pc
        };
        let (mut base, mut len) = (low, high.saturating_sub(low));
        // Seven starts at a time: their loads do not wait for each other, where those of a binary
        // search do.
        while len >= 8 {
            let step = len / 8;
            let Some(fdes) = fdes.get(base..base + 7 * step + 1) else { break };
            let after = |&k: &usize| not_after(base + k * step, &fdes[k * step]);
            base += step * (1..8).filter(after).count();
            len -= 7 * step;
        }
        let last = fdes.get(base..base + len).unwrap_or_default();
        base + last.iter().zip(base..).filter(|&(fde, i)| not_after(i, fde)).count()
    }

    #[inline]
    fn start32<const N: usize>(&self, b: &[u8; N]) -> i32 {
        self.endian().u32([b[0], b[1], b[2], b[3]]) as i32
    }

    #[inline]
    fn start64(&self, b: &[u8; 16]) -> i64 {
        self.endian().u64([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as i64
    }
}

/// The PC's offset in a function, if the function has it.
#[inline]
fn offset_in(pc: i64, start: i64, size: u32) -> Option<u32> {
    let offset = pc.wrapping_sub(start) as u64;
    (pc >= start && offset < u64::from(size)).then_some(offset as u32)
}

/// Where the last FRE lies that starts at or before `target`, in bytes from the first FRE.
/// The outer `None`: a malformed FRE was passed, which a closer look will find.
#[inline]
fn scan<const WIDTH: usize>(
    fres: &[u8],
    num: u32,
    target: u32,
    start: impl Fn(&[u8; WIDTH]) -> u32,
) -> Option<Option<usize>> {
    let (mut at, mut found, mut previous, mut malformed) = (0, usize::MAX, 0, false);
    for _ in 0..num {
        let (first, info) = fres.get(at..at + WIDTH + 1)?.split_first_chunk()?;
        let (start, info) = (start(first), FreInfo(info[0]));
        if start > target {
            break;
        }
        // Word size 3 is none.
        malformed |= start < previous || info.0 & 0x60 == 0x60;
        previous = start;
        found = at;
        at += WIDTH + 1 + (usize::from(info.count()) << (info.0 >> 5 & 3));
    }
    if malformed { None } else { Some((found != usize::MAX).then_some(found)) }
}
