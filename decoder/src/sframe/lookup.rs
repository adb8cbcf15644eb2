//! Lookups: from a PC to its row.
//!
//! The search over the index has no branch that depends on the data. The scan over the FREs reads only the
//! start and the info byte of each FRE, and decodes a single row.

use cfipack_format::sframe::{Fde, FdeType, FreInfo, Version};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Row};

use super::fde::Body;
use super::fre::head;
use super::{Error, Fres, Function, Section};

/// The row for a PC, and whether its function is a signal frame. [`Section::lookup_frame`] returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Frame {
    /// The row.
    pub row: Row,
    /// True if the function is a signal frame, see [`Function::is_signal_frame`].
    pub is_signal_frame: bool,
}

impl Frame {
    /// Creates a frame from a row, for example in your own [`AddressSpace`](crate::walk::AddressSpace).
    #[inline]
    pub const fn new(row: Row, is_signal_frame: bool) -> Self {
        Self { row, is_signal_frame }
    }
}

impl<'a> Section<'a> {
    /// Returns the function that contains the PC. A sorted index is searched, an unsorted index is read from
    /// end to end. A function of size 0 contains no PC.
    ///
    /// If functions overlap, the last start at or before the PC decides. If several functions start there, the
    /// last of them in the index that contains the PC is returned. An index that is declared sorted but is not
    /// sorted gives wrong answers; [`Section::validate`] finds it.
    ///
    /// # Errors
    /// The errors of [`Section::function`].
    pub fn find(&self, pc: Address) -> Result<Option<Function<'a>>, Error> {
        match self.find_fde(pc) {
            Some((index, fde, _)) => self.function_of(index, fde).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the row for a PC, or `None` if the table has no row for it.
    ///
    /// The row's start counts from the start of its function. In a PC-mask function, it counts from the start
    /// of the repetition that contains the PC.
    ///
    /// # Errors
    /// The errors of [`Section::function`] and [`Function::lookup`] for the bytes on the way to the row.
    #[inline]
    pub fn lookup(&self, pc: Address) -> Result<Option<Row>, Error> {
        Ok(self.lookup_frame(pc)?.map(|frame| frame.row))
    }

    /// Returns the row for a PC, and whether its function is a signal frame. A stack walk needs both.
    ///
    /// # Errors
    /// The errors of [`Section::lookup`].
    #[inline]
    pub fn lookup_frame(&self, pc: Address) -> Result<Option<Frame>, Error> {
        match self.find_fde(pc) {
            Some((index, fde, offset)) => self.frame_at(&self.body(index, &fde)?, offset),
            None => Ok(None),
        }
    }

    /// Returns the frame at `offset` in a function. `offset` must be less than the function's size.
    #[inline(always)]
    pub(super) fn frame_at(&self, body: &Body<'_>, offset: u32) -> Result<Option<Frame>, Error> {
        let is_signal_frame = body.is_signal_frame(self.version());
        Ok(self.row_at(body, offset)?.map(|row| Frame { row, is_signal_frame }))
    }

    /// Returns the row at `offset` in a function. `offset` must be less than the function's size.
    #[inline(always)]
    pub(super) fn row_at(&self, body: &Body<'_>, offset: u32) -> Result<Option<Row>, Error> {
        let target = if !body.is_pc_mask() {
            offset
        } else if self.version.has_repetition_size() {
            offset % body.repetition()?
        } else {
            return self.row_by_mask(body, offset);
        };
        match self.scan(body, target) {
            Some(None) => Ok(None),
            Some(Some(at)) => {
                if body.fde_type == FdeType::Default
                    && let Some(row) =
                        self.default_row(body.fres.get(at..).unwrap_or_default(), body.fre_type)
                {
                    return Ok(Some(row));
                }
                self.any_row(body, at, target)
            }
            None => self.row_error(body, target),
        }
    }

    /// Finds the row in a PC-mask function of version 1, where starts are masks: the last row with a start that
    /// has no bit outside the bits of `offset`.
    #[cold]
    #[inline(never)]
    fn row_by_mask(&self, body: &Body<'_>, offset: u32) -> Result<Option<Row>, Error> {
        let target = offset % body.repetition()?;
        let mut found = None;
        for fre in Fres::new(*self, *body, u32::MAX) {
            let fre = fre?;
            if fre.start.0 > target {
                break;
            }
            let row = fre.decode(self, body.fde_type)?;
            if row.start.0 & !target == 0 {
                found = Some(row);
            }
        }
        Ok(found)
    }

    /// Finds the last FRE of a function that starts at or before `target`, in bytes from the first FRE.
    ///
    /// The outer `None` means that the scan met a malformed FRE. The caller then reads the rows again to find
    /// the error.
    #[inline(always)]
    fn scan(&self, body: &Body<'_>, target: u32) -> Option<Option<usize>> {
        let (mut at, mut found, mut previous, mut malformed) = (0, usize::MAX, 0, false);
        let (mut like, mut len) = (FreInfo::OUTERMOST, body.fre_type.width() + 1);
        for _ in 0..body.num_fres {
            let (start, info) = self.head_at(body, at)?;
            if start > target {
                break;
            }
            malformed |= start < previous;
            previous = start;
            found = at;
            // Most FREs of a function have the same info byte. Then the next FRE does not have to wait for the
            // length.
            if info != like {
                (like, len) = (info, body.fre_type.width() + info.fre_len()?);
            }
            at += len;
        }
        if malformed { None } else { Some((found != usize::MAX).then_some(found)) }
    }

    /// Reads the start and the info byte of the FRE that lies `at` bytes after the function's first FRE.
    #[inline(always)]
    pub(super) fn head_at(&self, body: &Body<'_>, at: usize) -> Option<(u32, FreInfo)> {
        match body.fres.get(at..)?.first_chunk::<5>() {
            Some(bytes) => Some(head(bytes, body.fre_type, self.endian())),
            None => self.head_near_end(body, at),
        }
    }

    /// Reads the head of an FRE when fewer than five bytes are left in the sub-section.
    #[cold]
    fn head_near_end(&self, body: &Body<'_>, at: usize) -> Option<(u32, FreInfo)> {
        let rest = body.fres.get(at..)?;
        if rest.len() <= body.fre_type.width() {
            return None;
        }
        let mut bytes = [0; 5];
        for (byte, value) in bytes.iter_mut().zip(rest) {
            *byte = *value;
        }
        Some(head(&bytes, body.fre_type, self.endian()))
    }

    /// Returns the FDE that contains the PC, its index, and the PC's offset in the function.
    #[inline(always)]
    fn find_fde(&self, pc: Address) -> Option<(usize, Fde, u32)> {
        let pc = pc.distance_from(self.address());
        if !self.is_sorted() {
            return self.find_fde_unsorted(pc);
        }
        let count = self.count_not_after(pc);
        self.last_that_holds(count, pc, |place| place)
    }

    /// Tries each function. The result is the same as for a sorted index.
    #[cold]
    #[inline(never)]
    fn find_fde_unsorted(&self, pc: i64) -> Option<(usize, Fde, u32)> {
        let (mut deciding, mut found) = (i64::MIN, None);
        for index in 0..self.num_functions() {
            let Some((fde, start)) = self.located(index) else { continue };
            if fde.size == 0 || start > pc || start < deciding {
                continue;
            }
            if start != deciding {
                (deciding, found) = (start, None);
            }
            if let Some(offset) = offset_in(pc, start, fde.size) {
                found = Some((index, fde, offset));
            }
        }
        found
    }

    /// Returns the last function that contains the PC, from the first `count` functions in order of address.
    /// `index` turns a place in this order into an index.
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

    /// Looks at earlier functions: skips functions of size 0, then tries all functions with the same start.
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

    /// Returns an FDE, and the start of its function in bytes from the section's start.
    #[inline(always)]
    pub(super) fn located(&self, index: usize) -> Option<(Fde, i64)> {
        let fde = self.fde(index)?;
        Some((fde, self.relative_start(index, &fde)))
    }

    /// Returns the number of functions in a sorted index that start at or before the PC.
    #[inline(always)]
    fn count_not_after(&self, pc: i64) -> usize {
        match self.version {
            Version::V1 => self.search::<{ Version::V1.fde_size() }>(pc, |b| i64::from(self.start32(b))),
            Version::V2 => self.search::<{ Version::V2.fde_size() }>(pc, |b| i64::from(self.start32(b))),
            Version::V3 => self.search::<{ Version::V3.fde_size() }>(pc, |b| self.start64(b)),
        }
    }

    /// The search, where `N` is the size of an FDE. No branch depends on a start, because a CPU could not
    /// predict it.
    #[inline(always)]
    fn search<const N: usize>(&self, pc: i64, start: impl Fn(&[u8; N]) -> i64) -> usize {
        let (fdes, _) = self.index.as_chunks::<N>();
        // The origin of a start grows from FDE to FDE. It is added to the start: subtracted from the PC, it
        // would wrap at a distance of 2^63 bytes.
        let relative = if self.is_pc_relative() { !0 } else { 0 };
        let origin = |i: usize| ((self.index_offset + N * i) & relative) as i64;
        // The header counts FDEs in 32 bits. So no product with a length overflows, and places need no check.
        let (mut base, mut len) = (0, fdes.len() as u32);
        // Compares with seven starts at a time: their loads run in parallel, while the loads of a binary
        // search wait for each other. The last few starts lie together, and all of them are read.
        while len >= 16 {
            let step = len.to_usize() / 8;
            let Some(fdes) = fdes.get(base..).and_then(|fdes| fdes.get(..7 * step + 1)) else { break };
            let (origin, stride) = (origin(base), ((N * step) & relative) as i64);
            let not_after =
                |&k: &usize| start(&fdes[k * step]).wrapping_add(origin + stride * k as i64) <= pc;
            base += step * (1..8).filter(not_after).count();
            len -= 7 * step as u32;
        }
        let last = fdes.get(base..base + len.to_usize()).unwrap_or_default();
        let (mut origin, stride) = (origin(base), (N & relative) as i64);
        for fde in last {
            base += usize::from(start(fde).wrapping_add(origin) <= pc);
            origin += stride;
        }
        base
    }

    #[inline]
    fn start32<const N: usize>(&self, b: &[u8; N]) -> i32 {
        self.endian().u32([b[0], b[1], b[2], b[3]]) as i32
    }

    #[inline]
    fn start64<const N: usize>(&self, b: &[u8; N]) -> i64 {
        self.endian().u64([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as i64
    }
}

/// Returns the PC's offset in a function, or `None` if the function does not contain the PC.
#[inline]
fn offset_in(pc: i64, start: i64, size: u32) -> Option<u32> {
    let offset = pc.wrapping_sub(start) as u64;
    (pc >= start && offset < u64::from(size)).then_some(offset as u32)
}
