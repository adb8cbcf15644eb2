//! The inner loop of the fast path: advances, and the offsets that pushes and pops give the CFA.

use core::hint;

use cfipack_format::widen::{ToU64, ToUsize};

use crate::sframe::fast::pattern::{Pattern, bytes_of};
use crate::sframe::rows::fres::{BEYOND, BUFFER, Room};

/// How many bytes are read at once. As many bytes must follow the instructions.
pub(crate) const LOOKAHEAD: usize = 8;

/// The properties of a CIE that decide how the instructions of its functions are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    pub(crate) code_alignment: u64,
    /// Bits of the registers that no row has.
    pub(crate) ignored: u64,
}

impl Reading {
    /// Returns 1 if the lowest bytes are a `DW_CFA_offset` of an ignored register with a short operand.
    #[inline(always)]
    fn is_ignored_save(&self, bytes: u64) -> u64 {
        let is_save = bytes & 0x80c0 == 0x0080;
        self.ignored >> (bytes & 0x3f) & u64::from(is_save)
    }
}

/// The place of the next row, and the number of rows: a single addition counts a row and makes room for it.
///
/// | bits | meaning |
/// |---|---|
/// | 0-31 | offset in the buffer |
/// | 32-63 | number of rows |
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

impl Place {
    const ROW: u64 = 1 << 32;

    /// Starts without rows. The first row goes to offset `first`.
    pub(crate) fn new(first: usize) -> Self {
        Self(first.to_u64())
    }

    /// The end of the rows.
    pub(crate) fn end(self) -> usize {
        (self.0 as u32).to_usize()
    }

    /// The number of rows.
    pub(crate) fn rows(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Turns a function's instructions into rows while they change only the location and the CFA's offset. Starts
/// are written in `WIDTH` bytes.
#[derive(Debug)]
pub(crate) struct Track<'a, 'r, const WIDTH: usize> {
    /// The instructions that are left, and [`LOOKAHEAD`] bytes after them.
    pub(crate) rest: &'a [u8],
    /// The location before `rest`, from the function's start.
    pub(crate) location: u64,
    /// The [FRE](Pattern) of the current row, so far.
    fre: u64,
    /// The step that this row adds to the place.
    step: u64,
    /// The FRE of the row before.
    last: u64,
    place: Place,
    room: &'r mut Room,
    pattern: Pattern,
    small_step: u64,
}

impl<'a, 'r, const WIDTH: usize> Track<'a, 'r, WIDTH> {
    /// Starts a function. Its rows go to `first` in a buffer with room for all of them.
    #[inline(always)]
    pub(crate) fn new(
        rest: &'a [u8],
        pattern: Pattern,
        offset: u32,
        room: &'r mut Room,
        first: usize,
    ) -> Self {
        // No FRE has all bits set.
        let (last, place) = (u64::MAX, Place::new(first));
        let mut track =
            Self { rest, location: 0, fre: 0, step: 0, last, place, room, pattern, small_step: 0 };
        track.set_pattern(pattern, offset);
        track
    }

    /// The CFA's offset.
    #[inline(always)]
    pub(crate) fn offset(&self) -> u32 {
        self.pattern.offset(self.fre)
    }

    /// Changes the current row.
    #[inline(always)]
    pub(crate) fn set_pattern(&mut self, pattern: Pattern, offset: u32) {
        self.pattern = pattern;
        self.small_step = Self::step(pattern.small_fre(0));
        self.set_fre(pattern.fre(offset));
    }

    #[inline(always)]
    fn set_fre(&mut self, fre: u64) {
        (self.fre, self.step) = (fre, Self::step(fre));
    }

    #[inline(always)]
    fn step(fre: u64) -> u64 {
        (Place::ROW | WIDTH.to_u64()) + bytes_of(fre)
    }

    /// Ends the last row. Returns the end of the rows, and the start of the last row.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> (Place, u32) {
        self.end_row();
        let last = self.place.end() - WIDTH - bytes_of(self.last).to_usize();
        let mut start = [0; 4];
        start[..WIDTH].copy_from_slice(&self.room[last % BUFFER..][..WIDTH]);
        (self.place, u32::from_le_bytes(start))
    }

    /// Adds the current row unless it repeats the row before. This function has no branch, because no processor
    /// could predict it.
    #[inline(always)]
    fn end_row(&mut self) {
        let room = &mut self.room[self.place.end() % BUFFER..][..BEYOND];
        room[..4].copy_from_slice(&(self.location as u32).to_le_bytes());
        room[WIDTH..WIDTH + 8].copy_from_slice(&self.fre.to_le_bytes());
        self.place.0 += hint::select_unpredictable(self.fre == self.last, 0, self.step);
        self.last = self.fre;
    }

    /// Continues until an instruction may change more than the location or the CFA's offset, and returns false
    /// then. Returns true if all instructions have been read.
    #[inline(always)]
    pub(crate) fn run(&mut self, reading: &Reading) -> bool {
        loop {
            // The most frequent pair: `DW_CFA_advance_loc` (not by 0), then `DW_CFA_def_cfa_offset` or
            // `DW_CFA_GNU_args_size` with an operand of up to 0x7f.
            let word = loop {
                let Some(word) = self.next_word() else { return true };
                let beyond_one = (word & 0x80_dfff).wrapping_sub(0x0e41);
                if beyond_one >= 0x3f {
                    break word;
                }
                self.end_row();
                self.location += (beyond_one + 1) * reading.code_alignment;
                let fre = self.pattern.small_fre(word >> 16 & 0x7f);
                self.fre = hint::select_unpredictable(word & 0x2000 == 0, fre, self.fre);
                // If the FRE stays, the row repeats the row before, and the step does not matter.
                self.step = self.small_step;
                self.rest = &self.rest[3..];
            };
            let left = self.rest.len() - LOOKAHEAD;
            // DW_CFA_offset, often several
            let first = reading.is_ignored_save(word);
            if first != 0 {
                let second = first & u64::from(left > 2) & reading.is_ignored_save(word >> 16);
                let third = second & u64::from(left > 4) & reading.is_ignored_save(word >> 32);
                let fourth = third & u64::from(left > 6) & reading.is_ignored_save(word >> 48);
                self.rest = &self.rest[2 * (first + second + third + fourth).to_usize()..];
                continue;
            }
            // Another advance, and the instructions that often follow it
            let advance = &ADVANCES[usize::from(word as u8)];
            let mut len = usize::from(advance.len);
            if advance.len != 0 {
                let distance = word >> advance.shift & advance.mask;
                if distance == 0 {
                    return false;
                }
                self.end_row();
                self.location += distance * reading.code_alignment;
            }
            let next = word >> (8 * len);
            len += match next as u8 {
                _ if len >= left => 0,
                // DW_CFA_def_cfa_offset
                0x0e if next & 0x8000 == 0 => {
                    (self.fre, self.step) = (self.pattern.small_fre(next >> 8 & 0x7f), self.small_step);
                    2
                }
                0x0e if next & 0x80_0000 == 0 => {
                    self.set_fre(self.pattern.fre((next >> 8) as u32 & 0x7f | (next >> 9) as u32 & 0x3f80));
                    3
                }
                // DW_CFA_GNU_args_size
                0x2e if next & 0x8000 == 0 => 2,
                // DW_CFA_restore
                opcode @ 0xc0.. if reading.ignored >> (opcode & 0x3f) & 1 != 0 => 1,
                // DW_CFA_nop: padding up to the end
                0x00 if left <= 8 && word << (64 - 8 * left) == 0 => left,
                0x00 => 1,
                _ if len == 0 => return false,
                _ => 0,
            };
            self.rest = &self.rest[len..];
        }
    }

    /// Returns the next eight bytes, the first byte lowest, or `None` at the end of the instructions.
    #[inline(always)]
    fn next_word(&self) -> Option<u64> {
        if self.rest.len() <= LOOKAHEAD {
            return None;
        }
        self.rest.first_chunk().map(|word| u64::from_le_bytes(*word))
    }
}

/// The encoding of the distance in an instruction that advances.
#[derive(Clone, Copy, Debug)]
struct Advance {
    /// The bits of the distance in the instruction.
    mask: u64,
    shift: u8,
    /// Bytes of the instruction, or 0 if it does not advance.
    len: u8,
}

/// The encodings of advances, by opcode.
static ADVANCES: [Advance; 256] = {
    let mut advances = [Advance { mask: 0, shift: 0, len: 0 }; 256];
    let mut opcode = 0x40;
    while opcode < 0x80 {
        advances[opcode] = Advance { mask: 0x3f, shift: 0, len: 1 };
        opcode += 1;
    }
    advances[0x02] = Advance { mask: 0xff, shift: 8, len: 2 };
    advances[0x03] = Advance { mask: 0xffff, shift: 8, len: 3 };
    advances[0x04] = Advance { mask: 0xffff_ffff, shift: 8, len: 5 };
    advances
};
