//! The inner loop of the encoder: pushes and pops.

use alloc::boxed::Box;
use alloc::vec;

use super::pattern::Pattern;

/// Bytes behind the instructions: so many are read at once.
pub(super) const LOOKAHEAD: usize = 8;

/// What the instructions of a CIE's functions are read by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) code_alignment: u64,
    /// Registers, by their bits, that may be saved without anybody caring.
    pub(super) ignored: u64,
}

impl Reading {
    /// 1 if the lowest bytes are a `DW_CFA_offset` with a short operand, of a register that is
    /// ignored, else 0.
    #[inline(always)]
    fn is_ignored_save(&self, bytes: u64) -> u64 {
        let is_save = bytes & 0x80c0 == 0x0080;
        self.ignored >> (bytes & 0x3f) & u64::from(is_save)
    }
}

/// A function's instructions on their way to rows, as far as nothing but the location and the CFA's
/// offset changes.
#[derive(Debug)]
pub(super) struct Track<'a, 'r> {
    /// The instructions that are left, and [`LOOKAHEAD`] bytes.
    pub(super) rest: &'a [u8],
    /// The location in front of them, from the function's start.
    pub(super) location: u64,
    /// What the [FRE](Pattern) of the row there is, so far.
    pub(super) fre: u64,
    rows: &'r mut Rows,
    count: usize,
    /// The FRE of the last row.
    last: u64,
}

impl<'a, 'r> Track<'a, 'r> {
    /// The start of a function, if there is room for all rows that so many bytes of instructions may give.
    #[inline(always)]
    pub(super) fn new(rest: &'a [u8], fre: u64, rows: &'r mut Rows) -> Option<Self> {
        // A row takes a byte of instructions or more. No FRE's info byte has all bits set.
        (rest.len() <= ROWS).then_some(Self { rest, location: 0, fre, rows, count: 0, last: u64::MAX })
    }

    /// Ends the function, of `size` bytes. Returns the number of its rows; none if it is not common after
    /// all.
    #[inline(always)]
    pub(super) fn finish(mut self, size: u32) -> Option<usize> {
        self.end_row();
        let mut count = self.count;
        if self.location >= size.into() {
            if self.location > u32::MAX.into() {
                return None;
            }
            count = self.rows.starts[..count].partition_point(|&start| start < size);
        }
        Some(count)
    }

    /// Adds the row there is so far unless it repeats the one before; without branching, which nobody
    /// could predict.
    #[inline(always)]
    fn end_row(&mut self) {
        let place = self.count % ROWS;
        self.rows.starts[place] = self.location as u32;
        self.rows.fres[place] = self.fre;
        self.count += usize::from(self.fre != self.last);
        self.last = self.fre;
    }

    /// Goes on until something else than the location or the CFA's offset may change. Returns
    /// whether that is so, or all instructions have been read.
    #[inline(always)]
    pub(super) fn run(&mut self, reading: &Reading, pattern: &Pattern) -> bool {
        loop {
            // DW_CFA_advance_loc and DW_CFA_def_cfa_offset of up to 0x7f: most of all.
            while let Some(word) = self.next_word().filter(|word| word & 0x80_ffc0 == 0x0e40) {
                self.end_row();
                self.location += (word & 0x3f) * reading.code_alignment;
                self.fre = pattern.small_fre(word >> 16 & 0x7f);
                self.rest = &self.rest[3..];
            }
            let Some(word) = self.next_word() else { return true };
            let left = self.rest.len() - LOOKAHEAD;
            // DW_CFA_offset, often several
            let first = reading.is_ignored_save(word);
            if first != 0 {
                let second = first & u64::from(left > 2) & reading.is_ignored_save(word >> 16);
                let third = second & u64::from(left > 4) & reading.is_ignored_save(word >> 32);
                let fourth = third & u64::from(left > 6) & reading.is_ignored_save(word >> 48);
                self.rest = &self.rest[2 * (first + second + third + fourth) as usize..];
                continue;
            }
            // Another DW_CFA_advance_loc, and what often follows it
            let advance = &ADVANCES[usize::from(word as u8)];
            if advance.mask != 0 {
                self.end_row();
                self.location += (word >> advance.shift & advance.mask) * reading.code_alignment;
                let len = usize::from(advance.len);
                let next = word >> (8 * len);
                let (sets_offset, is_args) = (next & 0x80ff == 0x0e, next & 0x80ff == 0x2e);
                let has_next = (sets_offset | is_args) & (left > len);
                self.fre =
                    if sets_offset & has_next { pattern.small_fre(next >> 8 & 0x7f) } else { self.fre };
                self.rest = &self.rest[len + 2 * usize::from(has_next)..];
                continue;
            }
            let operand_is_short = word & 0x8000 == 0;
            let len = match word as u8 {
                // DW_CFA_def_cfa_offset
                0x0e if operand_is_short => {
                    self.fre = pattern.small_fre(word >> 8 & 0x7f);
                    2
                }
                0x0e if word & 0x80_0000 == 0 => {
                    self.fre = pattern.fre((word >> 8) as u32 & 0x7f | (word >> 9) as u32 & 0x3f80);
                    3
                }
                // DW_CFA_GNU_args_size
                0x2e if operand_is_short => 2,
                // DW_CFA_restore
                opcode @ 0xc0.. if reading.ignored >> (opcode & 0x3f) & 1 != 0 => 1,
                // DW_CFA_nop: padding up to the end
                0x00 if left <= 8 && word << (64 - 8 * left) == 0 => left,
                0x00 => 1,
                _ => return false,
            };
            self.rest = &self.rest[len..];
        }
    }

    /// The next instructions, the first byte in the lowest; none at their end.
    #[inline(always)]
    fn next_word(&self) -> Option<u64> {
        if self.rest.len() <= LOOKAHEAD {
            return None;
        }
        self.rest.first_chunk().map(|word| u64::from_le_bytes(*word))
    }
}

/// How an instruction that advances says how far.
#[derive(Clone, Copy, Debug)]
struct Advance {
    /// Where the distance is in the instruction; 0 for instructions that do not advance.
    mask: u64,
    shift: u8,
    /// Bytes of the instruction.
    len: u8,
}

/// By opcode.
static ADVANCES: [Advance; 256] = {
    let mut advances = [Advance { mask: 0, shift: 0, len: 1 }; 256];
    let mut opcode = 0x41;
    while opcode < 0x80 {
        advances[opcode] = Advance { mask: 0x3f, shift: 0, len: 1 };
        opcode += 1;
    }
    advances[0x02] = Advance { mask: 0xff, shift: 8, len: 2 };
    advances[0x03] = Advance { mask: 0xffff, shift: 8, len: 3 };
    advances[0x04] = Advance { mask: 0xffff_ffff, shift: 8, len: 5 };
    advances
};

/// The most rows that there is room for.
pub(super) const ROWS: usize = 4096;

/// Starts and FREs of a function's rows.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) starts: Box<[u32; ROWS]>,
    pub(super) fres: Box<[u64; ROWS]>,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self { starts: zeros(), fres: zeros() }
    }
}

/// As many zeros, which the allocator may have without touching their memory.
fn zeros<T: Clone + Default>() -> Box<[T; ROWS]> {
    let zeros = vec![T::default(); ROWS].into_boxed_slice();
    zeros.try_into().unwrap_or_else(|_| unreachable!("it has that length"))
}
