//! Functions whose call frame instructions have been seen before.
//!
//! Two functions with the same instructions and the same CIE have the same rows, wherever they
//! lie. Most functions of a large program repeat another one's, so remembering where instructions
//! stand and what they gave saves much of the interpreting. The memo forgets: what is not found is
//! interpreted again, and the sharing of equal blocks does not depend on it.

use alloc::vec;
use alloc::vec::Vec;

use super::words::{CHUNK, mix, same as same_words, words};
use crate::cfi::Code;

/// Instructions that have been interpreted, what they gave, and what else must be equal for them to
/// give it again.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Where the instructions start in the section.
    at: u32,
    /// The block that they gave.
    block: u32,
    /// The location that they end at: it lies inside any function they can stand for.
    end: u32,
    /// The rows that they gave.
    num_fres: u16,
    mark: Mark,
}

/// What tells most instructions apart that are not the same: few must be looked at, which takes long.
///
/// | bits | meaning |
/// |---|---|
/// | 0-7 | bytes of the instructions |
/// | 8-11 | number of the CIE |
/// | 12-15 | part of a hash of the instructions |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark(u16);

/// What a function is remembered by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    slot: u32,
    mark: Mark,
}

/// What a function's instructions gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Remembered {
    /// The number of the block.
    pub(super) block: u32,
    /// Its rows.
    pub(super) num_fres: u32,
}

/// Instructions of one section that have been interpreted.
#[derive(Clone, Debug)]
pub(super) struct Memo {
    /// A power of two of them.
    slots: Vec<Slot>,
}

impl Memo {
    /// The longest instructions that are remembered, in bytes.
    const LONGEST: usize = 0xff;
    /// That of instructions that are not remembered, and of no others: none are empty.
    const NONE: Mark = Mark(0);

    /// For a section of so many functions, most of which repeat others' instructions.
    pub(super) fn new(functions: usize) -> Self {
        let empty = Slot { at: 0, block: 0, end: u32::MAX, num_fres: 0, mark: Self::NONE };
        Self { slots: vec![empty; (functions / 3).next_power_of_two()] }
    }

    /// What a function is remembered by.
    #[inline(always)]
    pub(super) fn key(&self, cie: u8, code: &Code<'_>) -> Key {
        let len = code.len();
        let none = Key { slot: 0, mark: Self::NONE };
        let Some(head) = code.with_behind().first_chunk() else { return none };
        let hash = mix((len as u64) << 8 | u64::from(cie), &words(head, len));
        let mark = Mark(len as u16 | u16::from(cie) << 8 | (hash >> 48) as u16 & 0xf000);
        let slot = (hash ^ hash >> 32) as usize & (self.slots.len() - 1);
        let can_be = (len <= Self::LONGEST) & (len > 0) & (cie < 16);
        if can_be { Key { slot: slot as u32, mark } } else { none }
    }

    /// What a function of `size` bytes with the same instructions gave.
    #[inline(always)]
    pub(super) fn find(&self, key: Key, code: &Code<'_>, size: u32) -> Option<Remembered> {
        let Slot { at, block, end, num_fres, mark } = self.slots[key.slot as usize];
        if (mark != key.mark) | (size <= end) {
            return None;
        }
        let known = code.other(at as usize);
        let found = same(&known, code);
        found.then_some(Remembered { block, num_fres: num_fres.into() })
    }

    /// Remembers what instructions gave that end at `end`, from the function's start.
    #[inline]
    pub(super) fn remember(&mut self, key: Key, code: &Code<'_>, end: u64, gave: Remembered) {
        let (at, end) = (u32::try_from(code.offset()), u32::try_from(end));
        if let (Ok(at), Ok(end), Ok(num_fres)) = (at, end, u16::try_from(gave.num_fres))
            && key.mark != Self::NONE
        {
            self.slots[key.slot as usize] = Slot { at, block: gave.block, end, num_fres, mark: key.mark };
        }
    }
}

/// Whether instructions of the same length are the same.
#[inline(always)]
fn same(one: &Code<'_>, two: &Code<'_>) -> bool {
    let (Some(one_head), Some(two_head)) = (one.with_behind().first_chunk(), two.with_behind().first_chunk())
    else {
        return false;
    };
    let len = one.len();
    same_words(&words(one_head, len), &words(two_head, len))
        && (len <= CHUNK || one.with_behind().get(CHUNK..len) == two.with_behind().get(CHUNK..len))
}
