//! Frame row entries (FREs) as stored.

use core::iter::FusedIterator;

use cfipack_format::sframe::{ControlWord, FreInfo, FreType, WordSize};
use cfipack_format::{Endian, FunctionOffset, Row, SectionOffset};

use super::fde::Body;
use super::{Error, Section};

/// An FRE as stored. [`Fre::row`] decodes it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fre {
    /// The offset of the first byte of the FRE.
    pub offset: SectionOffset,
    /// The first PC of the row, from the function's start.
    pub start: FunctionOffset,
    /// The info byte.
    pub info: FreInfo,
    /// The size of a data word.
    pub word_size: WordSize,
    pub(super) words: [i32; Self::MAX_WORDS],
}

impl Fre {
    /// The greatest number of data words in an FRE: a pair for each of the CFA, the RA and the FP.
    pub const MAX_WORDS: usize = FreInfo::MAX_WORDS;

    /// The greatest length in bytes: a start, an info byte and six words.
    const MAX_LEN: usize = FreType::Addr4.width() + 1 + WordSize::MAX_WIDTH * Self::MAX_WORDS;

    /// Returns the data words, sign-extended.
    #[inline]
    pub fn words(&self) -> &[i32] {
        &self.words[..usize::from(self.info.count()).min(Self::MAX_WORDS)]
    }

    /// Returns a data word as a control word, which is unsigned.
    #[inline]
    pub fn control(&self, word: i32) -> ControlWord {
        ControlWord(match self.word_size {
            WordSize::B1 => u32::from(word as u8),
            WordSize::B2 => u32::from(word as u16),
            WordSize::B4 => word as u32,
        })
    }

    /// Returns the size in bytes.
    #[inline(always)]
    fn len(&self, fre_type: FreType) -> usize {
        fre_type.width() + 1 + self.word_size.len_of(self.info.count().into())
    }

    /// Reads the FRE at the start of `bytes` if it has at most three words and `bytes` are long enough for
    /// three words of the widest size. Does not set the FRE's offset.
    #[inline(always)]
    pub(super) fn read_short(bytes: &[u8], fre_type: FreType, endian: Endian) -> Option<Self> {
        let window = bytes.first_chunk::<{ FreType::Addr4.width() + 1 + WordSize::MAX_WIDTH * 3 }>()?;
        let (start, info) = head(window, fre_type, endian);
        let word_size = info.word_size().filter(|_| info.count() <= 3)?;
        let mut words = [0; Self::MAX_WORDS];
        for (i, slot) in words[..3].iter_mut().enumerate() {
            let at = fre_type.width() + 1 + word_size.len_of(i);
            *slot = word([window[at], window[at + 1], window[at + 2], window[at + 3]], word_size, endian);
        }
        Some(Self { offset: SectionOffset(0), start: FunctionOffset(start), info, word_size, words })
    }

    /// Reads the FRE at the start of `bytes`, and returns it with its length. Errors contain `offset`.
    #[inline(always)]
    pub(super) fn read(
        bytes: &[u8],
        offset: SectionOffset,
        fre_type: FreType,
        endian: Endian,
    ) -> Result<(Self, usize), Error> {
        let mut copy = [0; Self::MAX_LEN];
        let window: &[u8; Self::MAX_LEN] = match bytes.first_chunk() {
            Some(window) => window,
            // Near the end of the sub-section, reads a copy that is padded with zeros.
            None => {
                copy[..bytes.len()].copy_from_slice(bytes);
                &copy
            }
        };
        let (start, info) = head(window, fre_type, endian);
        let head = fre_type.width() + 1;
        let word_size = info.word_size().ok_or(Error::FreInfo { offset, value: info.0 })?;
        let count = usize::from(info.count());
        if count > Self::MAX_WORDS {
            return Err(Error::WordCount { offset, value: info.count() });
        }
        let len = head + word_size.len_of(count);
        if len > bytes.len() {
            return Err(Error::FreTruncated { offset });
        }
        let mut words = [0; Self::MAX_WORDS];
        let read = if count <= 3 { 3 } else { Self::MAX_WORDS };
        for (i, slot) in words[..read].iter_mut().enumerate() {
            let at = head + word_size.len_of(i);
            *slot = word([window[at], window[at + 1], window[at + 2], window[at + 3]], word_size, endian);
        }
        Ok((Self { offset, start: FunctionOffset(start), info, word_size, words }, len))
    }
}

/// Reads the start and the info byte of an FRE. The type of FREs changes from function to function, so no
/// branch depends on it. `N` is at least 5.
#[inline(always)]
pub(super) fn head<const N: usize>(bytes: &[u8; N], fre_type: FreType, endian: Endian) -> (u32, FreInfo) {
    let unused_bits = 32 - 8 * fre_type.width() as u32;
    let aligned = match endian {
        Endian::Little => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) << unused_bits,
        Endian::Big => u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    };
    (aligned >> unused_bits, FreInfo(bytes[fre_type.width()]))
}

/// Reads a data word from the four bytes that start with it. The size changes from row to row, so no branch
/// depends on it.
#[inline(always)]
fn word(bytes: [u8; WordSize::MAX_WIDTH], size: WordSize, endian: Endian) -> i32 {
    let unused_bits = 32 - size.len_of(8) as u32;
    let aligned = match endian {
        Endian::Little => u32::from_le_bytes(bytes) << unused_bits,
        Endian::Big => u32::from_be_bytes(bytes),
    };
    aligned as i32 >> unused_bits
}

/// The FREs of a function, as stored. The first error ends the iterator.
#[derive(Clone, Debug)]
pub struct Fres<'a> {
    section: Section<'a>,
    body: Body<'a>,
    size: u32,
    rest: &'a [u8],
    left: u32,
    previous: u32,
}

impl<'a> Fres<'a> {
    /// `size` is the size of the function, which bounds the starts.
    pub(super) fn new(section: Section<'a>, body: Body<'a>, size: u32) -> Self {
        Self { section, body, size, rest: body.fres, left: body.num_fres, previous: 0 }
    }

    /// Returns the offset of the next FRE. After the last FRE, this is the offset of its end.
    pub(super) fn offset(&self) -> SectionOffset {
        SectionOffset(self.section.fres_offset + self.section.fres.len() - self.rest.len())
    }

    /// Returns the unread bytes, from the next FRE to the end of the FRE sub-section. They go beyond the
    /// function's last FRE, because you only find its end by reading the FREs.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads an FRE near the end of the sub-section or with more than three words. Returns it with its length.
    #[cold]
    #[inline(never)]
    fn read_long(&self) -> Result<(Fre, usize), Error> {
        Fre::read(self.rest, self.offset(), self.body.fre_type, self.section.endian())
    }

    #[inline(always)]
    fn read(&mut self) -> Result<Fre, Error> {
        let (fre_type, endian) = (self.body.fre_type, self.section.endian());
        let (fre, len) = match Fre::read_short(self.rest, fre_type, endian) {
            Some(fre) => (Fre { offset: self.offset(), ..fre }, fre.len(fre_type)),
            None => self.read_long()?,
        };
        let (offset, value) = (fre.offset, fre.start.0);
        if value < self.previous {
            return Err(Error::StartDecreases { offset, value });
        }
        if value > self.body.last_start(self.size)? {
            return Err(Error::StartBeyondEnd { offset, value });
        }
        self.previous = value;
        self.rest = &self.rest[len..];
        Ok(fre)
    }
}

impl Iterator for Fres<'_> {
    type Item = Result<Fre, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let fre = self.read();
        if fre.is_err() {
            self.left = 0;
        }
        Some(fre)
    }
}

impl FusedIterator for Fres<'_> {}

/// The rows of a function, see [`Function::rows`](super::Function::rows).
#[derive(Clone, Debug)]
pub struct Rows<'a>(pub(super) Fres<'a>);

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let fre = self.0.next()?;
        Some(fre.and_then(|fre| fre.decode(&self.0.section, self.0.body.fde_type)))
    }
}

impl FusedIterator for Rows<'_> {}
