//! Functions whose call frame instructions have been seen before.
//!
//! Two functions with the same instructions and the same CIE have the same rows, wherever they
//! lie. Half of the functions of a large program repeat a short one, so a small cache of short
//! instruction sequences saves much of the interpreting. It forgets: what is not found is
//! interpreted again, and the sharing of equal blocks does not depend on it.

use alloc::vec;
use alloc::vec::Vec;

use crate::cfi::{Code, Ran};

/// The longest instructions that are remembered, without trailing zeros, in words of 8 bytes.
const WORDS: usize = 6;
/// Small enough to stay in a processor's second-level cache.
const SLOTS: usize = 4096;

/// Instructions that have been interpreted, and what they gave: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot {
    /// The instructions, zeros behind them: those at their own end are padding.
    words: [u64; WORDS],
    cie: u8,
    /// Bytes of instructions that must be there, trailing zeros included.
    needed: u16,
    /// The location that the instructions end at: it lies inside any function they can stand for.
    end: u32,
    /// The number of the entry that they gave first, and its rows.
    entry: u32,
    num_fres: u32,
}

/// What a function's instructions gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Remembered {
    /// The number of an entry that has the block.
    pub(super) entry: u32,
    /// Its rows.
    pub(super) num_fres: u32,
}

/// Short instruction sequences interpreted of late.
#[derive(Clone, Debug)]
pub(super) struct Memo {
    slots: Vec<Slot>,
}

/// What a function is remembered by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    words: [u64; WORDS],
    cie: u8,
    /// Bytes of the instructions that are no padding.
    pub(super) needed: usize,
    slot: usize,
}

impl Memo {
    pub(super) fn new() -> Self {
        // No CIE has this number.
        let empty = Slot { words: [0; WORDS], cie: u8::MAX, needed: 0, end: 0, entry: 0, num_fres: 0 };
        Self { slots: vec![empty; SLOTS] }
    }

    /// What a function's instructions are remembered by, if they can be.
    #[inline(always)]
    pub(super) fn key(&self, cie: u8, code: &Code<'_>) -> Option<Key> {
        let needed = without_trailing_zeros(code.instructions());
        let words = words(code, needed)?;
        Some(Key { words, cie, needed, slot: hash(cie, &words) })
    }

    /// What a function of `size` bytes with the same instructions gave.
    #[inline(always)]
    pub(super) fn find(&self, key: &Key, code: &Code<'_>, size: u32) -> Option<Remembered> {
        let slot = &self.slots[key.slot];
        let differing = slot.words.iter().zip(&key.words).fold(0, |bits, (one, two)| bits | (one ^ two));
        let same = differing == 0
            && slot.cie == key.cie
            && code.instructions().len() >= slot.needed.into()
            && size > slot.end;
        same.then_some(Remembered { entry: slot.entry, num_fres: slot.num_fres })
    }

    /// Remembers what the instructions of `key` gave in a function of `size` bytes, if they give it
    /// everywhere.
    #[inline]
    pub(super) fn remember(&mut self, key: Key, ran: Ran, size: u32, found: Remembered) {
        if let (Ok(needed), Ok(end)) = (u16::try_from(ran.needed), u32::try_from(ran.end))
            && !ran.names_address
            && end < size
        {
            let Key { words, cie, slot, .. } = key;
            let Remembered { entry, num_fres } = found;
            self.slots[slot] = Slot { words, cie, needed, end, entry, num_fres };
        }
    }
}

/// The instructions with zeros behind them, unless they are too long or at the section's end.
#[inline(always)]
fn words(code: &Code<'_>, needed: usize) -> Option<[u64; WORDS]> {
    let bytes: &[u8; WORDS * 8] = code.with_behind().first_chunk()?;
    let (chunks, _) = bytes.as_chunks::<8>();
    let masks = MASKS.get(needed)?;
    let mut words = [0; WORDS];
    for ((word, chunk), mask) in words.iter_mut().zip(chunks).zip(masks) {
        *word = u64::from_le_bytes(*chunk) & mask;
    }
    Some(words)
}

/// What leaves the first so many bytes.
static MASKS: [[u64; WORDS]; WORDS * 8 + 1] = {
    let mut masks = [[0; WORDS]; WORDS * 8 + 1];
    let mut len = 0;
    while len < masks.len() {
        let mut byte = 0;
        while byte < len {
            masks[len][byte / 8] |= 0xff << (byte % 8 * 8);
            byte += 1;
        }
        len += 1;
    }
    masks
};

#[inline(always)]
fn hash(cie: u8, words: &[u64; WORDS]) -> usize {
    const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xff51_afd7_ed55_8ccd];
    let (pairs, _) = words.as_chunks::<2>();
    let mut sum = u64::from(cie);
    for [a, b] in pairs {
        let product = u128::from(a ^ ODD[0]) * u128::from(b ^ ODD[1]);
        sum = sum.rotate_left(9) ^ product as u64 ^ (product >> 64) as u64;
    }
    (sum ^ sum >> 32) as usize % SLOTS
}

/// How many bytes of instructions are left without the zeros at their end, which are padding or
/// operands of the last.
#[inline(always)]
pub(super) fn without_trailing_zeros(mut bytes: &[u8]) -> usize {
    while let Some((rest, tail)) = bytes.split_last_chunk::<8>() {
        let zeros = u64::from_le_bytes(*tail).leading_zeros() as usize / 8;
        if zeros < 8 {
            return bytes.len() - zeros;
        }
        bytes = rest;
    }
    while let [rest @ .., 0] = bytes {
        bytes = rest;
    }
    bytes.len()
}
