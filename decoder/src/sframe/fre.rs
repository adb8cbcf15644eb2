//! Frame row entries as stored.

use core::iter::FusedIterator;

use cfipack_format::sframe::{ControlWord, FreInfo, FreType, WordSize};
use cfipack_format::{Endian, FunctionOffset, Row, SectionOffset};

use super::fde::Body;
use super::{Error, Section};

/// An FRE as stored.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fre {
    /// The offset of its start.
    pub offset: SectionOffset,
    /// First PC it answers for, from the function's start.
    pub start: FunctionOffset,
    /// The info byte.
    pub info: FreInfo,
    /// Bytes of a data word.
    pub word_size: WordSize,
    pub(super) words: [i32; Self::MAX_WORDS],
}

impl Fre {
    /// The most data words that an FRE has: pairs for the CFA, the RA and the FP.
    pub const MAX_WORDS: usize = 6;

    /// A start, an info byte and the words at their widest.
    const MAX_LEN: usize = 4 + 1 + 4 * Self::MAX_WORDS;

    /// The data words, sign-extended.
    #[inline]
    pub fn words(&self) -> &[i32] {
        &self.words[..usize::from(self.info.count()).min(Self::MAX_WORDS)]
    }

    /// A data word as the unsigned number that a control word is.
    #[inline]
    pub fn control(&self, word: i32) -> ControlWord {
        ControlWord(match self.word_size {
            WordSize::B1 => u32::from(word as u8),
            WordSize::B2 => u32::from(word as u16),
            WordSize::B4 => word as u32,
        })
    }

    /// The size in bytes.
    #[inline(always)]
    fn len(&self, fre_type: FreType) -> usize {
        fre_type.width() + 1 + (usize::from(self.info.count()) << self.word_size as u8)
    }

    /// The FRE at the start of `bytes`, if it has at most three words and they at their widest
    /// would not reach beyond `bytes`; without its offset.
    #[inline(always)]
    pub(super) fn read_short(bytes: &[u8], fre_type: FreType, endian: Endian) -> Option<Self> {
        let window = bytes.first_chunk::<{ 4 + 1 + 4 * 3 }>()?;
        let (start, info) = head(window, fre_type, endian);
        let word_size = info.word_size().filter(|_| info.count() <= 3)?;
        let mut words = [0; Self::MAX_WORDS];
        for (i, slot) in words[..3].iter_mut().enumerate() {
            let at = fre_type.width() + 1 + (i << word_size as u8);
            *slot = word([window[at], window[at + 1], window[at + 2], window[at + 3]], word_size, endian);
        }
        Some(Self { offset: SectionOffset(0), start: FunctionOffset(start), info, word_size, words })
    }

    /// Reads the FRE at the start of `bytes`, and how long it is. `offset` is its place, for errors.
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
            // Near the end of the sub-section.
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
        let len = head + (count << word_size as u8);
        if len > bytes.len() {
            return Err(Error::FreTruncated { offset });
        }
        let mut words = [0; Self::MAX_WORDS];
        let read = if count <= 3 { 3 } else { Self::MAX_WORDS };
        for (i, slot) in words[..read].iter_mut().enumerate() {
            let at = head + (i << word_size as u8);
            *slot = word([window[at], window[at + 1], window[at + 2], window[at + 3]], word_size, endian);
        }
        Ok((Self { offset, start: FunctionOffset(start), info, word_size, words }, len))
    }
}

/// The start and the info byte at the beginning of an FRE, without a branch on the type, which
/// changes from function to function. `N` is at least 5.
#[inline(always)]
pub(super) fn head<const N: usize>(bytes: &[u8; N], fre_type: FreType, endian: Endian) -> (u32, FreInfo) {
    let unused_bits = 32 - 8 * fre_type.width() as u32;
    let aligned = match endian {
        Endian::Little => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) << unused_bits,
        Endian::Big => u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    };
    (aligned >> unused_bits, FreInfo(bytes[fre_type.width()]))
}

/// A data word, from the four bytes that hold it or start with it, without a branch on the size,
/// which changes from row to row.
#[inline(always)]
fn word(bytes: [u8; 4], size: WordSize, endian: Endian) -> i32 {
    let unused_bits = 32 - 8 * size.width() as u32;
    let aligned = match endian {
        Endian::Little => u32::from_le_bytes(bytes) << unused_bits,
        Endian::Big => u32::from_be_bytes(bytes),
    };
    aligned as i32 >> unused_bits
}

/// The FREs of a function, as stored. After the first error there are no more.
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
    /// `size` is the function's, which bounds the starts.
    pub(super) fn new(section: Section<'a>, body: Body<'a>, size: u32) -> Self {
        Self { section, body, size, rest: body.fres, left: body.num_fres, previous: 0 }
    }

    /// The offset of the next FRE, or the last ended.
    pub(super) fn offset(&self) -> SectionOffset {
        SectionOffset(self.section.fres_offset + self.section.fres.len() - self.rest.len())
    }

    /// The bytes that have not been read, from the next FRE on: they go on to the end of the FRE sub-section, for
    /// only reading FREs shows where a function's last one ends.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// An FRE near the end of the sub-section, or of more than three words; and how long it is.
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

/// The rows of a function.
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
