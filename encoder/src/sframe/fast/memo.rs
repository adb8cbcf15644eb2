//! Remembers the rows of functions by their call frame instructions.
//!
//! Two functions with equal instructions and CIEs with the same number have equal rows, whatever sections the
//! functions are in. In a large program, most functions repeat the instructions of another function. The memo
//! remembers instructions and the block of rows that they produced, which saves much of the interpreting. The
//! memo may forget: the function is then interpreted again, and its rows still share a block with equal rows.
//!
//! Nine of ten functions have at most [`SHORT`] bytes of instructions. The memo holds these bytes themselves. Of
//! longer instructions it holds the place in their section.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;

use crate::cfi::Code;

/// The longest instructions that the memo holds itself, in bytes.
const SHORT: usize = 16;

/// The result of instructions that have been interpreted, with a condition for using it again: a function
/// longer than `end`.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// The number of the block with their rows.
    block: u32,
    /// The location after the last advance, in bytes from the function's start. A function must be longer than
    /// this to use the result.
    end: u32,
    /// The number of rows.
    num_fres: u16,
}

/// The result of short instructions.
#[derive(Clone, Copy, Debug)]
struct ShortSlot {
    /// The instructions, with zeros after them.
    words: [u64; 2],
    outcome: Outcome,
    mark: Mark,
}

/// The result of longer instructions.
#[derive(Clone, Copy, Debug)]
struct LongSlot {
    /// The number of the section with the instructions, and their start there.
    section: u32,
    at: u32,
    outcome: Outcome,
    mark: Mark,
}

/// Tells most instructions apart, so the slow comparison of bytes is rarely done in vain.
///
/// | bits | meaning |
/// |---|---|
/// | 0-7 | number of bytes of the instructions |
/// | 8-11 | number of the CIE |
/// | 12-15 | part of a hash of the instructions, if they are long |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark(u16);

/// The rows of a function that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remembered {
    /// The number of the block.
    pub(crate) block: u32,
    /// The number of rows.
    pub(crate) num_fres: u32,
}

/// Instructions that have been interpreted, in any section of a builder. Slots are in pairs, and the number of
/// pairs is a power of two. Instructions with the same hash share a pair. The slot that was written last comes
/// first.
#[derive(Clone, Default, Debug)]
pub(crate) struct Memo<'a> {
    short: Vec<[ShortSlot; 2]>,
    long: Vec<[LongSlot; 2]>,
    sections: Vec<&'a [u8]>,
}

impl Mark {
    /// The mark of empty slots, in which no function is found.
    const NONE: Self = Self(u16::MAX);

    /// The mark of `len` bytes of instructions. `cie` is the number of their CIE, below 16.
    #[inline(always)]
    fn new(len: usize, cie: u8) -> Self {
        Self(len as u16 & 0xff | u16::from(cie % 16) << 8)
    }
}

impl Outcome {
    const NONE: Self = Self { block: 0, end: u32::MAX, num_fres: 0 };

    /// Returns the rows if a function of `size` bytes has these rows.
    #[inline(always)]
    fn of(&self, size: u32) -> Option<Remembered> {
        let Self { block, end, num_fres } = *self;
        (size > end).then_some(Remembered { block, num_fres: num_fres.into() })
    }
}

impl ShortSlot {
    const EMPTY: Self = Self { words: [0; 2], outcome: Outcome::NONE, mark: Mark::NONE };

    #[inline(always)]
    fn has(&self, words: [u64; 2], mark: Mark) -> bool {
        let bits = (self.words[0] ^ words[0]) | (self.words[1] ^ words[1]);
        (bits | u64::from(self.mark.0 ^ mark.0)) == 0
    }
}

impl LongSlot {
    const EMPTY: Self = Self { section: 0, at: 0, outcome: Outcome::NONE, mark: Mark::NONE };
}

impl<'a> Memo<'a> {
    /// The longest instructions that are remembered, in bytes.
    const LONGEST: usize = 0xff;
    /// The greatest number of pairs of short slots. With more, the memo is slow because it is not in the
    /// processor's caches.
    const MAX_PAIRS: usize = 1 << 15;

    /// Begins a section of a table of about `functions` functions. The size assumes that most functions repeat
    /// the instructions of another function. A memo that becomes larger forgets all.
    pub(crate) fn begin(&mut self, section: &'a [u8], functions: usize) {
        let pairs = (functions / 8).next_power_of_two().min(Self::MAX_PAIRS);
        if self.short.len() < pairs {
            self.short = vec![[ShortSlot::EMPTY; 2]; pairs];
            self.long = vec![[LongSlot::EMPTY; 2]; (pairs / 2).max(1)];
            self.sections.clear();
        }
        self.sections.push(section);
    }

    /// Finds the result of instructions that are equal to `code`, for a function of `size` bytes. `cie` is the
    /// number of its CIE, below 16.
    #[inline(always)]
    pub(crate) fn find(&self, cie: u8, code: &Code<'_>, size: u32) -> Option<Remembered> {
        if code.len() > SHORT {
            return self.find_long(cie, code, size);
        }
        let (words, mark) = (short_words(code), Mark::new(code.len(), cie));
        let [first, second] = &self.short[self.short_slot(words, mark)];
        let slot = if first.has(words, mark) { first } else { second };
        slot.outcome.of(size).filter(|_| slot.has(words, mark))
    }

    #[inline(never)]
    fn find_long(&self, cie: u8, code: &Code<'_>, size: u32) -> Option<Remembered> {
        let bytes = code.bytes();
        let (slot, mark) = self.long_slot(cie, bytes)?;
        let [first, second] = &self.long[slot];
        let slot = if first.mark == mark { first } else { second };
        let found = slot.outcome.of(size).filter(|_| slot.mark == mark)?;
        let known = self.sections[slot.section.to_usize()].get(slot.at.to_usize()..)?;
        (known.get(..bytes.len())? == bytes).then_some(found)
    }

    /// Returns the number of the pair for short instructions.
    #[inline(always)]
    fn short_slot(&self, [low, high]: [u64; 2], mark: Mark) -> usize {
        folded_product(low ^ u64::from(mark.0) << 48, high) as usize & (self.short.len() - 1)
    }

    /// Returns the number of the pair for longer instructions, and their mark. Returns `None` for instructions
    /// that are not remembered.
    #[inline(always)]
    fn long_slot(&self, cie: u8, bytes: &[u8]) -> Option<(usize, Mark)> {
        let Mark(mark) = Mark::new(bytes.len(), cie);
        let hash = match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) => long_hash::<32>(first) ^ long_hash::<32>(last).rotate_left(32),
            _ => long_hash::<16>(bytes.first_chunk()?) ^ long_hash::<16>(bytes.last_chunk()?).rotate_left(32),
        };
        let hash = (hash ^ u64::from(mark)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mark = Mark(mark | (hash >> 48) as u16 & 0xf000);
        let slot = (hash >> 20) as usize & (self.long.len() - 1);
        (bytes.len() <= Self::LONGEST).then_some((slot, mark))
    }

    /// Remembers the result of instructions of the last section. `end` is the location after their last advance,
    /// from the function's start.
    #[inline]
    pub(crate) fn remember(&mut self, cie: u8, code: &Code<'_>, end: u64, result: Remembered) {
        let (Ok(end), Ok(num_fres)) = (u32::try_from(end), u16::try_from(result.num_fres)) else { return };
        let outcome = Outcome { block: result.block, end, num_fres };
        if code.len() <= SHORT {
            let (words, mark) = (short_words(code), Mark::new(code.len(), cie));
            let slot = self.short_slot(words, mark);
            let [first, second] = &mut self.short[slot];
            // They are equal if the function is too short for the known result.
            if !first.has(words, mark) {
                *second = *first;
            }
            *first = ShortSlot { words, outcome, mark };
        } else if let Some((slot, mark)) = self.long_slot(cie, code.bytes())
            && let Ok(at) = u32::try_from(code.offset())
        {
            let section = (self.sections.len() - 1) as u32;
            let [first, second] = &mut self.long[slot];
            if first.mark != mark {
                *second = *first;
            }
            *first = LongSlot { section, at, outcome, mark };
        }
    }
}

/// Returns the bytes of short instructions, with zeros after them.
#[inline(always)]
fn short_words(code: &Code<'_>) -> [u64; 2] {
    let bytes: [u8; SHORT] = match code.tail().first_chunk() {
        Some(bytes) => *bytes,
        None => last_bytes(code.tail()),
    };
    let all = u128::from_le_bytes(bytes) & MASKS[code.len() % MASKS.len()];
    [all as u64, (all >> 64) as u64]
}

/// The masks that leave the first bytes, by their number.
static MASKS: [u128; 2 * SHORT] = {
    let mut masks = [u128::MAX; 2 * SHORT];
    let mut len = 0;
    while len < SHORT {
        masks[len] = (1 << (8 * len)) - 1;
        len += 1;
    }
    masks
};

/// Returns a hash of bytes. Their number is a multiple of 16.
#[inline(always)]
fn long_hash<const N: usize>(bytes: &[u8; N]) -> u64 {
    let (pairs, _) = bytes.as_chunks::<16>();
    pairs.iter().fold(0, |hash, pair| {
        let pair = u128::from_le_bytes(*pair);
        folded_product(pair as u64 ^ hash, (pair >> 64) as u64)
    })
}

/// Mixes two words: multiplies them, and folds the product.
#[inline(always)]
fn folded_product(one: u64, two: u64) -> u64 {
    let product = u128::from(one ^ 0x9e37_79b9_7f4a_7c15) * u128::from(two ^ 0xc4ce_b9fe_1a85_ec53);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the last bytes of a section, fewer than [`SHORT`], with zeros after them.
#[cold]
fn last_bytes(bytes: &[u8]) -> [u8; SHORT] {
    let mut chunk = [0; SHORT];
    chunk[..bytes.len()].copy_from_slice(bytes);
    chunk
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use cfipack_format::{Address, Arch};

    use super::{Memo, Remembered};
    use crate::cfi::{Code, Section, SectionKind};
    use crate::eh_frame::{CIE, fde};

    /// Returns a section of functions of `size` bytes, one function for each list of instructions.
    fn section(instructions: &[&[u8]], size: u32) -> Vec<u8> {
        let mut bytes = CIE.to_vec();
        instructions.iter().for_each(|instructions| fde(&mut bytes, 0, 0, size, instructions));
        bytes.extend([0; super::SHORT]);
        bytes
    }

    fn codes(bytes: &[u8]) -> Vec<Code<'_>> {
        let section = Section::new(SectionKind::EhFrame, bytes, Address(0), Arch::Amd64);
        crate::cfi::Functions::new(&section).map(|function| function.unwrap().code()).collect()
    }

    /// Remembers the first instructions in a memo of a single pair, for CIE 0 and with the end 5. Returns
    /// whether the memo finds the second instructions.
    fn finds(known: &[u8], wanted: &[u8], cie: u8, size: u32) -> bool {
        let bytes = section(&[known, wanted], size);
        let codes = codes(&bytes);
        let mut memo = Memo::default();
        memo.begin(&bytes, 1);
        let result = Remembered { block: 3, num_fres: 2 };
        memo.remember(0, &codes[0], 5, result);
        memo.find(cie, &codes[1], size).is_some_and(|found| found == result)
    }

    /// A pair keeps the last two different instructions, even if the same instructions are remembered again.
    #[test]
    fn two_of_a_hash() {
        let bytes = section(&[&[0x41], &[0x42, 0x43], &[0x44, 0x45, 0x46]], 6);
        let codes = codes(&bytes);
        let found = |remembered: &[usize]| {
            let mut memo = Memo::default();
            memo.begin(&bytes, 1);
            for &number in remembered {
                let result = Remembered { block: number as u32, num_fres: 1 };
                memo.remember(0, &codes[number], 5, result);
            }
            [0, 1, 2].map(|number| {
                let code = &codes[number];
                memo.find(0, code, 6).map(|result| result.block as usize)
            })
        };
        assert_eq!(found(&[0, 1]), [Some(0), Some(1), None]);
        assert_eq!(found(&[0, 1, 1]), [Some(0), Some(1), None]);
        assert_eq!(found(&[0, 1, 2]), [None, Some(1), Some(2)]);
    }

    #[test]
    fn only_the_same_instructions_are_found() {
        // Instructions of several lengths. Each byte differs from the bytes near it.
        for len in [1, 2, 7, 8, 63, 64, 65, 127, 128, 129, 254, 255] {
            let known: Vec<u8> = (0..len).map(|at| (3 * at) as u8).collect();
            assert!(finds(&known, &known, 0, 6), "{len}");
            assert!(!finds(&known, &known, 0, 5), "{len}: beyond the function");
            for at in 0..len {
                let mut other = known.clone();
                other[at] ^= 0x10;
                assert!(!finds(&known, &other, 0, 6), "{len}: byte {at}");
            }
            assert!(!finds(&known, &known[1..], 0, 6) && !finds(&known[1..], &known, 0, 6), "{len}");
            assert!((1..16).all(|cie| !finds(&known, &known, cie, 6)), "{len}: another CIE");
        }
        assert!(finds(&[], &[], 0, 6) && !finds(&[], &[], 1, 6) && !finds(&[], &[0], 0, 6));
        assert!(!finds(&[1; 256], &[1; 256], 0, 6));
    }
}
