//! A cache of rows by the bytes that encode them, and walks over functions that use it.

use cfipack_decoder::sframe::{Fres, Function};
use cfipack_format::sframe::{FdeType, FreInfo, FreType};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Endian, Row};

/// The number of rows in the cache.
const SLOTS: usize = 512;
/// The greatest length of an FRE in the cache, in bytes without the start.
const LONGEST: usize = 7;

/// A cache of rows. The key is the bytes of an FRE without its start, and a hash of the key gives the slot.
#[derive(Debug)]
pub(super) struct Decoded {
    /// The index of the table that the rows come from. Under the header of another table the same bytes can mean
    /// another row.
    section: u32,
    slots: Vec<(u64, Row)>,
}

impl Decoded {
    pub(super) fn new() -> Self {
        Self { section: u32::MAX, slots: Vec::new() }
    }

    /// Starts a walk over a function of the table with this index. The function's rows must not repeat. Returns `None`
    /// if the first row does not start where the function does, or cannot be read.
    pub(super) fn walk<'d, 't>(
        &'d mut self,
        section: u32,
        endian: Endian,
        function: &'d Function<'t>,
    ) -> Option<Walk<'d, 't>> {
        if self.section != section {
            self.section = section;
            // No FRE has the key 0.
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

/// A walk over the rows of a function.
#[derive(Debug)]
pub(super) struct Walk<'d, 't> {
    decoded: &'d mut Decoded,
    function: &'d Function<'t>,
    endian: Endian,
    /// The decoder for FREs that are not in the cache. It stands after the last FRE that it has decoded.
    fres: Fres<'t>,
    /// The number of FREs that the decoder has not passed.
    decoder_left: u32,
    /// The bytes from the next FRE on.
    bytes: &'t [u8],
    /// The number of FREs in `bytes`.
    left: u32,
    /// The start of the next row, in bytes from the function's start, or `u64::MAX` at the end.
    next: u64,
    /// The start of the current row.
    last: u64,
    /// The slot of the current row.
    slot: usize,
}

impl<'t> Walk<'_, 't> {
    /// Returns the row that [`step`](Self::step) has reached. Its start may be that of another FRE with the same bytes.
    #[inline]
    pub(super) fn row(&self) -> &Row {
        &self.decoded.slots[self.slot].1
    }

    /// Returns the start of the next row, or `u64::MAX` at the end.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the start of the last row and the bytes after the FREs, if all FREs have been read.
    pub(super) fn end(&self) -> Option<(u64, &'t [u8])> {
        (self.left == 0).then_some((self.last, self.bytes))
    }

    /// Goes on to the next row. Returns `None` if the row, or the start of the row after it, cannot be read. Also
    /// returns `None` for rare FREs that the cache does not hold.
    #[inline]
    pub(super) fn step(&mut self) -> Option<()> {
        let width = self.function.fre_type().width();
        let bytes: &[u8; 4 + 8] = self.bytes.first_chunk()?;
        let word = u64::from_le_bytes(*bytes[width..].first_chunk()?);
        let info = FreInfo(word as u8);
        let len = info.fre_len()?;
        if len > LONGEST {
            return None;
        }
        // The highest bit is set, so that no key is 0.
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

    /// Decodes the row of the next FRE.
    #[cold]
    fn decode(&mut self) -> Option<Row> {
        let passed = self.decoder_left - self.left;
        self.decoder_left = self.left - 1;
        self.fres.nth(passed.to_usize())?.ok()?.row(self.function).ok()
    }

    /// Reads the start of the next row. It must not be before the current row or after the function's end.
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
