//! The inner loop of the encoder: pushes and pops.

use cfipack_format::sframe::{Attribute, FreInfo, FreType};

use super::fre::{BEYOND, BUFFER, fre_len};
use super::pattern::{Pattern, ShortFre};

/// A function's instructions on their way to FREs, as far as nothing but the location and the CFA's
/// offset changes.
#[derive(Debug)]
pub(super) struct Track<'a> {
    /// The instructions that are left, and [`LOOKAHEAD`] bytes.
    pub(super) rest: &'a [u8],
    /// The location in front of them, from the function's start.
    pub(super) location: u64,
    /// What the row there is, so far.
    pub(super) fre: ShortFre,
    /// The FRE of the last row that was written.
    last: u64,
    /// Where that row ends in the buffer, and in the upper half how many there are.
    end_and_count: u64,
    /// Where the first row starts in the buffer.
    first: usize,
    fre_type: FreType,
    /// The first location whose row is not to be written as it comes: its start is too far for the
    /// type, or the function ends in front of it.
    limit: u64,
    /// The function's size.
    size: u64,
    /// [`Self::end_and_count`] at the function's end, once the location is there.
    whole: Option<u64>,
}

/// Bytes behind the instructions: so many are read at once.
pub(super) const LOOKAHEAD: usize = 8;

/// What the instructions of a CIE's functions are read by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) code_alignment: u64,
    /// Registers, by their bits, that may be saved without anybody caring.
    pub(super) ignored: u64,
}

/// Where the rows of a function are written.
pub(super) type Buffer = [u8; BUFFER + BEYOND];

impl<'a> Track<'a> {
    /// The start of a function whose first row is to lie at `first`, in a buffer with room for all
    /// rows that so many bytes of instructions may give; else none.
    #[inline]
    pub(super) fn new(rest: &'a [u8], fre: ShortFre, first: usize, size: u32) -> Option<Self> {
        // A row takes a byte of instructions or more, and 12 bytes or less; when starts
        // become wider, up to two times, the rows are written anew behind the old ones.
        if first + rest.len().saturating_mul(3 * 12) > BUFFER {
            return None;
        }
        // No FRE's info byte has all bits set.
        let last = u64::MAX;
        let size = size.into();
        let (fre_type, limit) = (FreType::Addr1, 0x100.min(size));
        let (location, end_and_count) = (0, first as u64);
        Some(Self { rest, location, fre, last, end_and_count, first, fre_type, limit, size, whole: None })
    }

    /// Goes on until something else than the location or the CFA's offset may change.
    #[inline]
    pub(super) fn run(&mut self, reading: &Reading, pattern: &Pattern, buffer: &mut Buffer) {
        loop {
            let is_at_limit = match self.fre_type {
                FreType::Addr1 => self.run_with_starts_of::<1>(reading, pattern, buffer),
                FreType::Addr2 => self.run_with_starts_of::<2>(reading, pattern, buffer),
                FreType::Addr4 => self.run_with_starts_of::<4>(reading, pattern, buffer),
            };
            if !is_at_limit {
                return;
            }
            self.pass_limit(buffer);
        }
    }

    /// Ends the function. Returns where its first row starts and its last ends, their number and type.
    #[inline]
    pub(super) fn finish(&mut self, buffer: &mut Buffer) -> (usize, usize, u32, FreType) {
        if self.location >= self.limit {
            self.pass_limit(buffer);
        }
        let mut rows = Rows { buffer, end_and_count: self.end_and_count, last: self.last };
        match self.fre_type {
            FreType::Addr1 => rows.push::<1>(self.location, self.fre),
            FreType::Addr2 => rows.push::<2>(self.location, self.fre),
            FreType::Addr4 => rows.push::<4>(self.location, self.fre),
        }
        let end_and_count = self.whole.unwrap_or(rows.end_and_count);
        (self.first, end_and_count as u32 as usize, (end_and_count >> 32) as u32, self.fre_type)
    }

    /// Returns whether it stopped at a row beyond the limit.
    fn run_with_starts_of<const WIDTH: usize>(
        &mut self,
        reading: &Reading,
        pattern: &Pattern,
        buffer: &mut Buffer,
    ) -> bool {
        let mut is_at_limit = false;
        // Locals, lest everything goes through memory.
        let Self { mut rest, mut location, mut fre, limit, .. } = *self;
        let mut rows = Rows { buffer, end_and_count: self.end_and_count, last: self.last };
        while rest.len() > LOOKAHEAD
            && let Some(word) = rest.first_chunk()
        {
            let word = u64::from_le_bytes(*word);
            // DW_CFA_advance_loc of 1 to 63 and DW_CFA_def_cfa_offset of up to 0x7f: most of all.
            let delta = (word & 0x80_ffff).wrapping_sub(0x0e40);
            if delta.wrapping_sub(1) < 0x3f {
                if location >= limit && (fre.bytes != rows.last || location >= self.size) {
                    is_at_limit = true;
                    break;
                }
                rows.push::<WIDTH>(location, fre);
                location += delta * reading.code_alignment;
                fre = pattern.fre((word >> 16) as u32 & 0x7f);
                rest = &rest[3..];
                continue;
            }
            let opcode = word as u8;
            let operand_is_short = word & 0x8000 == 0;
            let (delta, len) = match opcode {
                // DW_CFA_offset
                0x80..=0xbf if operand_is_short && reading.ignored >> (opcode & 0x3f) & 1 != 0 => {
                    rest = &rest[2..];
                    continue;
                }
                // DW_CFA_advance_loc, 1, 2, 4
                0x41..=0x7f => (u64::from(opcode & 0x3f), 1),
                0x02 if word & 0xff00 != 0 => (word >> 8 & 0xff, 2),
                0x03 if word & 0xff_ff00 != 0 => (word >> 8 & 0xffff, 3),
                0x04 if word & 0xff_ffff_ff00 != 0 => (word >> 8 & 0xffff_ffff, 5),
                // DW_CFA_def_cfa_offset
                0x0e if operand_is_short => {
                    fre = pattern.fre((word >> 8) as u32 & 0x7f);
                    rest = &rest[2..];
                    continue;
                }
                0x0e if word & 0x80_0000 == 0 => {
                    fre = pattern.fre((word >> 8) as u32 & 0x7f | (word >> 9) as u32 & 0x3f80);
                    rest = &rest[3..];
                    continue;
                }
                // DW_CFA_GNU_args_size
                0x2e if operand_is_short => {
                    rest = &rest[2..];
                    continue;
                }
                // DW_CFA_restore
                0xc0.. if reading.ignored >> (opcode & 0x3f) & 1 != 0 => {
                    rest = &rest[1..];
                    continue;
                }
                _ => break,
            };
            if location >= limit && (fre.bytes != rows.last || location >= self.size) {
                is_at_limit = true;
                break;
            }
            rows.push::<WIDTH>(location, fre);
            location += delta * reading.code_alignment;
            rest = &rest[len..];
        }
        (self.end_and_count, self.last) = (rows.end_and_count, rows.last);
        (self.rest, self.location, self.fre) = (rest, location, fre);
        is_at_limit
    }

    /// Makes it possible to go on at the limit.
    #[cold]
    fn pass_limit(&mut self, buffer: &mut Buffer) {
        if self.location >= self.size {
            // What is written from here on will be forgotten.
            self.whole = Some(self.end_and_count);
            self.limit = u64::MAX;
        } else if self.fre.bytes != self.last {
            self.widen(buffer);
            self.limit = self.size.min(1 << (8 * self.fre_type.width()));
        }
    }

    /// Writes the rows anew, behind where they are, so that the next one's start fits.
    fn widen(&mut self, buffer: &mut Buffer) {
        let narrow = self.fre_type.width().min(2);
        let mask = (1 << (8 * narrow)) - 1;
        self.fre_type = FreType::for_start(self.location.min(u32::MAX.into()) as u32);
        let wide = self.fre_type.width().min(4);
        let end = self.end_and_count as u32 as usize;
        // Room for an attribute is in front of the first row.
        let mut to = end + Attribute::SIZE;
        let mut from = core::mem::replace(&mut self.first, to);
        while from < end {
            let row = &buffer[from..from + BEYOND];
            let (mut start, mut fre) = ([0; 4], [0; 8]);
            start.copy_from_slice(&row[..4]);
            fre.copy_from_slice(&row[narrow..narrow + 8]);
            let start = u32::from_le_bytes(start) & mask;
            let room = &mut buffer[to..to + BEYOND];
            room[..4].copy_from_slice(&start.to_le_bytes());
            room[wide..wide + 8].copy_from_slice(&fre);
            let len = fre_len(FreInfo(fre[0]));
            from += narrow + len;
            to += wide + len;
        }
        self.end_and_count += (to - end) as u64;
    }
}

/// The rows in the buffer.
struct Rows<'b> {
    buffer: &'b mut Buffer,
    end_and_count: u64,
    last: u64,
}

impl Rows<'_> {
    /// Adds a row unless it repeats the one before; without branching, which nobody could predict.
    #[inline(always)]
    fn push<const WIDTH: usize>(&mut self, start: u64, fre: ShortFre) {
        let end = self.end_and_count as usize % BUFFER;
        let room = &mut self.buffer[end..end + BEYOND];
        room[..4].copy_from_slice(&(start as u32).to_le_bytes());
        room[WIDTH..WIDTH + 8].copy_from_slice(&fre.bytes.to_le_bytes());
        let with_it = self.end_and_count + (WIDTH as u64 + fre.step);
        self.end_and_count = if fre.bytes == self.last { self.end_and_count } else { with_it };
        self.last = fre.bytes;
    }
}
