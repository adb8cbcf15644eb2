//! Remembers the rows of functions by their call frame instructions.
//!
//! Two functions with equal instructions and CIEs with the same number have equal rows, whatever sections the
//! functions are in. In a large program, most functions repeat the instructions of another function. The memo
//! remembers instructions and the block of rows that they produced, which saves much of the interpreting. The
//! memo may forget: the function is then interpreted again, and its rows still share a block with equal rows.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;

use crate::cfi::Code;
use crate::sframe::table::chunk::{CHUNK, WORDS, mix, same_words, words};

/// The result of instructions that have been interpreted, with the conditions for using it again: equal bytes,
/// the same mark, and a function longer than `end`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The number of the section with the instructions, and their start there.
    section: u32,
    at: u32,
    /// The number of the block with their rows.
    block: u32,
    /// The location after the last advance, in bytes from the function's start. A function must be longer than
    /// this to use the result.
    end: u32,
    /// The number of rows.
    num_fres: u16,
    mark: Mark,
}

/// A hash of the instructions. Different instructions nearly always have different marks, so the slow
/// comparison of bytes is rarely done in vain.
///
/// | bits | meaning |
/// |---|---|
/// | 0-7 | number of bytes of the instructions |
/// | 8-11 | number of the CIE |
/// | 12-15 | part of a hash of the instructions |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark(u16);

/// The place of a function in the memo, and its mark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    slot: u32,
    mark: Mark,
}

impl Key {
    /// The key of instructions that are not remembered.
    pub(crate) const NONE: Self = Self { slot: 0, mark: Memo::NONE };
}

/// The rows of a function that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remembered {
    /// The number of the block.
    pub(crate) block: u32,
    /// The number of rows.
    pub(crate) num_fres: u32,
}

/// Instructions that have been interpreted, in any section of a builder.
#[derive(Clone, Default, Debug)]
pub(crate) struct Memo<'a> {
    /// Pairs of slots; the number of pairs is a power of two. Instructions with the same hash share a pair.
    /// The slot that was written last comes first.
    slots: Vec<[Slot; 2]>,
    sections: Vec<&'a [u8]>,
}

impl<'a> Memo<'a> {
    /// The longest instructions that are remembered, in bytes.
    const LONGEST: usize = 0xff;
    /// The mark of instructions that are not remembered. No other instructions have it, because empty
    /// instructions are never remembered.
    const NONE: Mark = Mark(0);
    const EMPTY: Slot = Slot { section: 0, at: 0, block: 0, end: u32::MAX, num_fres: 0, mark: Self::NONE };
    /// The greatest number of pairs. With more, the memo is slow because it is not in the processor's caches.
    const MAX_PAIRS: usize = 1 << 16;

    /// Begins a section of a table of about `functions` functions. The size assumes that most functions repeat
    /// the instructions of another function. A memo that becomes larger forgets all.
    pub(crate) fn begin(&mut self, section: &'a [u8], functions: usize) {
        let pairs = (functions / 6).next_power_of_two().min(Self::MAX_PAIRS);
        if self.slots.len() < pairs {
            self.slots = vec![[Self::EMPTY; 2]; pairs];
            self.sections.clear();
        }
        self.sections.push(section);
    }

    /// The section that was begun last.
    #[inline(always)]
    pub(crate) fn section(&self) -> &'a [u8] {
        self.sections.last().copied().unwrap_or_default()
    }

    /// Returns the key of a function. `cie` is the number of its CIE, below 16.
    #[inline(always)]
    pub(crate) fn key(&self, cie: u8, code: &Code<'_>) -> Key {
        let len = code.len();
        let hash = mix(0, &head(code));
        let mark = len as u16 | u16::from(cie % 16) << 8;
        let hash = (hash ^ u64::from(mark)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mark = Mark(mark | (hash >> 48) as u16 & 0xf000);
        let slot = (hash >> 20).to_usize() & (self.slots.len() - 1);
        let can_be = (len <= Self::LONGEST) & (len > 0);
        if can_be { Key { slot: slot as u32, mark } } else { Key::NONE }
    }

    /// Finds the result of instructions that are equal to `code`, for a function of `size` bytes.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key, code: &Code<'_>, size: u32) -> Option<Remembered> {
        let pair = &self.slots[key.slot.to_usize()];
        let Slot { section, at, block, end, num_fres, mark } = pair[usize::from(pair[0].mark != key.mark)];
        if (mark != key.mark) | (size <= end) {
            return None;
        }
        let (known, len) = (self.sections[section.to_usize()].get(at.to_usize()..)?, code.len());
        let found = same_words(&words(known.first_chunk()?, len), &head(code))
            && (len <= CHUNK || known.get(CHUNK..len) == code.tail().get(CHUNK..len));
        found.then_some(Remembered { block, num_fres: num_fres.into() })
    }

    /// Remembers the result of instructions of the last section. `end` is the location after their last advance, from the
    /// function's start.
    #[inline]
    pub(crate) fn remember(&mut self, key: Key, code: &Code<'_>, end: u64, result: Remembered) {
        let (at, end) = (u32::try_from(code.offset()), u32::try_from(end));
        if let (Ok(at), Ok(end), Ok(num_fres)) = (at, end, u16::try_from(result.num_fres))
            && key.mark != Self::NONE
        {
            let section = (self.sections.len() - 1) as u32;
            let [first, second] = &mut self.slots[key.slot.to_usize()];
            // If the marks are equal, a function of the same batch usually had the same instructions.
            if first.mark != key.mark {
                *second = *first;
            }
            *first = Slot { section, at, block: result.block, end, num_fres, mark: key.mark };
        }
    }
}

/// Returns the first [`CHUNK`] bytes of instructions, with zeros after them.
#[inline(always)]
fn head(code: &Code<'_>) -> [u64; WORDS] {
    match code.tail().first_chunk() {
        Some(head) => words(head, code.len()),
        None => words(&last_chunk(code.tail()), code.len()),
    }
}

/// Returns bytes that are shorter than a chunk, with zeros after them.
#[cold]
fn last_chunk(bytes: &[u8]) -> [u8; CHUNK] {
    let mut chunk = [0; CHUNK];
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
        bytes.extend([0; super::CHUNK]);
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
        memo.remember(memo.key(0, &codes[0]), &codes[0], 5, result);
        memo.find(memo.key(cie, &codes[1]), &codes[1], size).is_some_and(|found| found == result)
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
                memo.remember(memo.key(0, &codes[number]), &codes[number], 5, result);
            }
            [0, 1, 2].map(|number| {
                let code = &codes[number];
                memo.find(memo.key(0, code), code, 6).map(|result| result.block as usize)
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
        assert!(!finds(&[], &[], 0, 6) && !finds(&[1; 256], &[1; 256], 0, 6));
    }
}
