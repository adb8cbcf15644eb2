//! The rows of a table by the bytes that encode them, each decoded once, and walks over functions by such rows.

use cfipack_decoder::sframe::{Fres, Function};
use cfipack_format::sframe::{FdeType, FreInfo, FreType};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Endian, Row};

/// The number of rows that are kept.
const SLOTS: usize = 512;
/// Bytes of an FRE without its start, at most, of which the row is kept.
const LONGEST: usize = 7;

/// Rows by the bytes of FREs without their starts, each in the slot that its bytes belong in.
#[derive(Debug)]
pub(super) struct Decoded {
    /// The index of the table that the rows are of: another one's header may give the same bytes another meaning.
    section: u32,
    slots: Vec<(u64, Row)>,
}

impl Decoded {
    pub(super) fn new() -> Self {
        Self { section: u32::MAX, slots: Vec::new() }
    }

    /// Walks a function of the table with this number, whose rows do not repeat. None if its first row does not start
    /// where it does, or cannot be read.
    pub(super) fn walk<'d, 't>(
        &'d mut self,
        section: u32,
        endian: Endian,
        function: &'d Function<'t>,
    ) -> Option<Walk<'d, 't>> {
        if self.section != section {
            self.section = section;
            // No FRE has 0 for its number.
            self.slots = vec![(0, Row::at_entry(Arch::Amd64)); SLOTS];
        }
        let fres = function.fres();
        let (bytes, left) = (fres.rest(), function.num_fres());
        let mut walk = Walk {
            decoded: self,
            function,
            endian,
            fres,
            decoder_left: left,
            bytes,
            left,
            next: 0,
            last: 0,
            slot: 0,
        };
        walk.read_start()?;
        (walk.next == 0).then_some(walk)
    }
}

/// The rows of a function, one after the other.
#[derive(Debug)]
pub(super) struct Walk<'d, 't> {
    decoded: &'d mut Decoded,
    function: &'d Function<'t>,
    endian: Endian,
    /// The decoder of FREs that are not known, with the number that it has left. It lags behind.
    fres: Fres<'t>,
    decoder_left: u32,
    /// From the next FRE on.
    bytes: &'t [u8],
    /// The number of FREs from the next one on.
    left: u32,
    /// The start of the next one, `u64::MAX` if there is none. As all starts it counts from the function's start.
    next: u64,
    /// The start of the row that is reached.
    last: u64,
    /// The place of that row.
    slot: usize,
}

impl<'t> Walk<'_, 't> {
    /// The row that was [stepped](Self::step) to, with another start.
    #[inline]
    pub(super) fn row(&self) -> &Row {
        &self.decoded.slots[self.slot].1
    }

    /// The start of the next row, `u64::MAX` if there is none.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The start of the last row, and what follows the FREs, if all have been read.
    pub(super) fn end(&self) -> Option<(u64, &'t [u8])> {
        (self.left == 0).then_some((self.last, self.bytes))
    }

    /// Goes on to the next row. None if it, or where the one after it starts, cannot be read, or only in a way that
    /// few tables need.
    #[inline]
    pub(super) fn step(&mut self) -> Option<()> {
        let width = self.function.fre_type().width();
        let bytes: &[u8; 4 + 8] = self.bytes.first_chunk()?;
        let word = u64::from_le_bytes(*bytes[width..].first_chunk()?);
        let info = FreInfo(word as u8);
        let len = 1 + (usize::from(info.count()) << info.word_size()? as u8);
        if len > LONGEST {
            return None;
        }
        // The highest bit is set, so that no number is 0.
        let kind = if self.function.fde_type() == FdeType::Flex { 0xc0 } else { 0x80 };
        let number = word & u64::MAX >> (u64::BITS.to_usize() - 8 * len) | kind << 56;
        self.slot = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())).to_usize();
        if self.decoded.slots[self.slot].0 != number {
            self.decoded.slots[self.slot] = (number, self.decode()?);
        }
        self.bytes = &self.bytes[width + len..];
        self.left -= 1;
        self.last = self.next;
        self.read_start()
    }

    /// The row of the next FRE.
    #[cold]
    fn decode(&mut self) -> Option<Row> {
        let passed = self.decoder_left - self.left;
        self.decoder_left = self.left - 1;
        self.fres.nth(passed.to_usize())?.ok()?.row(self.function).ok()
    }

    /// The start of the next row: not before the row before it, nor after the function's end.
    #[inline]
    fn read_start(&mut self) -> Option<()> {
        if self.left == 0 {
            self.next = u64::MAX;
            return Some(());
        }
        let bytes: &[u8; 4] = self.bytes.first_chunk()?;
        let start = match self.function.fre_type() {
            FreType::Addr1 => bytes[0].into(),
            FreType::Addr2 => self.endian.u16([bytes[0], bytes[1]]).into(),
            FreType::Addr4 => self.endian.u32(*bytes),
        };
        self.next = start.into();
        (self.last <= self.next && start <= self.function.size()).then_some(())
    }
}
