//! The FREs of functions on their way into blocks.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::Endian;
use cfipack_format::sframe::{Attribute, FreType, Version};
use cfipack_format::widen::ToU64;

use crate::sframe::rows::fre::{Fre, LongFre, ShortFre};

/// The FREs of a function, after room for its attribute and after blocks that are still needed.
#[derive(Clone, Debug)]
pub(crate) struct Fres {
    pub(super) bytes: Vec<u8>,
    /// The start of the function's room; blocks that are still needed lie before it.
    base: usize,
    /// The start of the first row.
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) count: u32,
    pub(super) fre_type: FreType,
    pub(super) last_start: u32,
    /// The last row's FRE. For a long FRE, this is only a [mark](ShortFre::of_long) with its length.
    last: ShortFre,
    pub(super) endian: Endian,
}

/// Bytes that an FRE may touch: start, info, words.
pub(super) const ROOM: usize = 4 + Fre::MAX_SIZE;

/// The size of the buffer in bytes. The rows of nearly any function fit.
pub(crate) const BUFFER: usize = 1 << 12;
/// Bytes after the buffer. Reads and writes of a fixed size may touch them.
pub(crate) const BEYOND: usize = 64;

/// The size of the buffer in bytes if few functions are expected.
const FEW: usize = 1 << 9;

/// The buffer for the rows of common functions.
pub(crate) type Room = [u8; BUFFER + BEYOND];

/// Version 3 counts an FDE's rows in 16 bits.
pub(crate) const MAX_ROWS: u32 = u16::MAX as u32;

impl Fres {
    /// Creates a buffer. For a `few` functions it is small, and has no [room](Self::room).
    pub(crate) fn new(endian: Endian, few: bool) -> Self {
        let buffer = if few { FEW } else { BUFFER };
        let last = ShortFre::NONE;
        let fre_type = FreType::Addr1;
        Self {
            bytes: vec![0; buffer + BEYOND],
            base: 0,
            first: Attribute::SIZE,
            end: Attribute::SIZE,
            count: 0,
            fre_type,
            last_start: 0,
            last,
            endian,
        }
    }

    /// Begins a function whose starts fit `fre_type`.
    #[inline]
    pub(crate) fn begin(&mut self, fre_type: FreType) {
        (self.first, self.end) = (self.base + Attribute::SIZE, self.base + Attribute::SIZE);
        self.count = 0;
        self.fre_type = fre_type;
        self.last_start = 0;
        self.last = ShortFre::NONE;
    }

    /// Returns the buffer, unless it is small, and the offset for the first row of a function.
    #[inline(always)]
    pub(crate) fn room(&mut self) -> Option<(&mut Room, usize)> {
        Some((self.bytes.first_chunk_mut()?, self.base + Attribute::SIZE))
    }

    /// Takes the rows that have been written into the [room](Self::room) up to `end`.
    #[inline(always)]
    pub(crate) fn take(&mut self, fre_type: FreType, end: usize, count: u32, last_start: u32) {
        self.first = self.base + Attribute::SIZE;
        (self.end, self.count, self.fre_type, self.last_start) = (end, count, fre_type, last_start);
    }

    /// Frees most of the buffer, which holds nothing that is still needed.
    pub(crate) fn shrink(&mut self) {
        self.bytes.truncate(FEW + BEYOND);
        self.bytes.shrink_to_fit();
        (self.base, self.first, self.end) = (0, Attribute::SIZE, Attribute::SIZE);
    }

    /// A number that the author of the input cannot guess: where the allocator put the bytes. The upper half of
    /// an address has few random bits, so they are spread over both.
    pub(crate) fn seed(&self) -> u64 {
        self.bytes.as_ptr().addr().to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The last row's FRE if it is short.
    #[inline(always)]
    pub(crate) fn last(&self) -> ShortFre {
        self.last
    }

    /// Returns whether the last row has these very bytes.
    #[inline]
    pub(crate) fn repeats(&self, fre: &Fre) -> bool {
        match fre {
            Fre::Short(fre) => self.last == *fre,
            Fre::Long(fre) => {
                self.last == ShortFre::of_long(fre)
                    && self.bytes.get(self.end - fre.len()..self.end) == fre.bytes().get(..fre.len())
            }
        }
    }

    /// Appends a row; `start` fits the FRE type.
    #[inline]
    pub(crate) fn push(&mut self, start: u32, fre: &Fre) {
        match fre {
            Fre::Short(fre) => self.push_short(start, *fre),
            Fre::Long(fre) => self.push_long(start, fre),
        }
    }

    /// Adds a short FRE; otherwise like [`push`](Self::push).
    #[inline(always)]
    pub(crate) fn push_short(&mut self, start: u32, fre: ShortFre) {
        let (room, width) = self.begin_row(start);
        room[width..][..8].copy_from_slice(&fre.bytes());
        self.end_row(fre);
    }

    #[cold]
    fn push_long(&mut self, start: u32, fre: &LongFre) {
        let (room, width) = self.begin_row(start);
        room[width..][..Fre::MAX_SIZE].copy_from_slice(fre.bytes());
        self.end_row(ShortFre::of_long(fre));
    }

    /// Writes a row's start. Returns room for the row, and the start's width.
    #[inline(always)]
    fn begin_row(&mut self, start: u32) -> (&mut [u8], usize) {
        self.grow_to(self.end + ROOM);
        let width = self.fre_type.width();
        let start_bytes = match self.endian {
            Endian::Little => start.to_le_bytes(),
            Endian::Big => big_endian(start, width),
        };
        self.last_start = start;
        let room = &mut self.bytes[self.end..][..ROOM];
        room[..4].copy_from_slice(&start_bytes);
        (room, width)
    }

    /// Counts the row that was written. `last` is its FRE, or the mark of a long FRE.
    #[inline(always)]
    fn end_row(&mut self, last: ShortFre) {
        self.end += self.fre_type.width() + last.len();
        self.count += 1;
        self.last = last;
    }

    /// Makes room for rows up to `end`.
    #[inline(always)]
    pub(super) fn grow_to(&mut self, end: usize) {
        if self.bytes.len() < end + BEYOND {
            self.grow(end + BEYOND);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.bytes.resize(len.next_power_of_two(), 0);
    }

    pub(crate) fn fre_type(&self) -> FreType {
        self.fre_type
    }

    /// Writes version 3's attribute before the FREs.
    #[inline(always)]
    pub(crate) fn set_attribute(&mut self, attribute: &[u8; Attribute::SIZE]) {
        self.bytes[self.first - Attribute::SIZE..self.first].copy_from_slice(attribute);
    }

    /// The function's block: its FREs and, in version 3, its attribute.
    #[inline(always)]
    pub(crate) fn block(&self, version: Version) -> Block {
        let start = self.first - version.attribute_size();
        Block { start, len: self.end - start }
    }

    /// Returns the bytes from the start of a block on, and beyond its end.
    #[inline(always)]
    pub(crate) fn tail(&self, block: Block) -> &[u8] {
        &self.bytes[block.start..]
    }

    /// Keeps the function's block: the next function comes after it.
    #[inline(always)]
    pub(crate) fn keep(&mut self) {
        self.base = self.end;
    }

    /// The start of the next function's room.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Forgets the blocks that were kept since the next function's room started at `base`.
    pub(crate) fn back_to(&mut self, base: usize) {
        self.base = base;
    }
}

/// The place of a function's block in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    start: usize,
    /// The number of bytes.
    pub(crate) len: usize,
}

/// Returns the lowest `width` bytes of a start, the highest byte first.
#[cold]
fn big_endian(start: u32, width: usize) -> [u8; 4] {
    (start << (32 - 8 * width)).to_be_bytes()
}
