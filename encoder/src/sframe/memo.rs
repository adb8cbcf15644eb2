//! Functions whose call frame instructions have been seen before.
//!
//! Two functions with the same instructions and the same CIE have the same rows, wherever they
//! lie. Half of the functions of a large program repeat a short one, so a small cache of short
//! instruction sequences saves much of the interpreting. It forgets: what is not found is
//! interpreted again, and the sharing of equal blocks does not depend on it.

use alloc::vec;
use alloc::vec::Vec;

use super::hash_index::hash;
use crate::cfi::{Cie, Function, Ran};

/// The longest instructions that are remembered, without trailing zeros; in bytes.
const MAX_LEN: usize = 24;
/// Small enough to stay in a processor's second-level cache.
const SLOTS: usize = 4096;
/// Real sections have a handful of CIEs; functions of further ones are interpreted every time.
const MAX_CIES: usize = 16;

/// Instructions that have been interpreted, and what they gave.
#[derive(Clone, Copy, Debug)]
struct Slot {
    instructions: [u8; MAX_LEN],
    len: u8,
    cie: u8,
    /// Bytes of instructions that must be there, trailing zeros included.
    needed: u16,
    /// The location that the instructions end at: it lies inside any function they can stand for.
    end: u32,
    found: Remembered,
}

/// What a function's instructions gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Remembered {
    /// The number of the block.
    pub(super) block: u32,
    /// Its rows.
    pub(super) num_fres: u32,
}

/// Short instruction sequences interpreted of late.
#[derive(Clone, Debug)]
pub(super) struct Memo<'a> {
    slots: Vec<Slot>,
    /// CIEs that differ in meaning.
    cies: Vec<Cie<'a>>,
    last_cie: usize,
}

/// Where a function that was not found can be remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    instructions: &'a [u8],
    cie: u8,
    slot: usize,
}

impl<'a> Memo<'a> {
    pub(super) fn new() -> Self {
        let found = Remembered { block: 0, num_fres: 0 };
        let empty = Slot { instructions: [0; MAX_LEN], len: u8::MAX, cie: 0, needed: 0, end: 0, found };
        Self { slots: vec![empty; SLOTS], cies: Vec::new(), last_cie: 0 }
    }

    /// What a function with the same instructions gave, or the key to remember it by, if it can be.
    #[inline]
    pub(super) fn find(&mut self, function: &Function<'a>) -> Result<Remembered, Option<Key<'a>>> {
        let instructions = without_trailing_zeros(function.instructions);
        if instructions.len() > MAX_LEN {
            return Err(None);
        }
        let cie = self.cie(&function.cie).ok_or(None)?;
        let slot_number = hash(cie.into(), instructions) as usize % SLOTS;
        let slot = &self.slots[slot_number];
        let same = usize::from(slot.len) == instructions.len()
            && slot.cie == cie
            && slot.instructions[..instructions.len()] == *instructions
            && function.instructions.len() >= slot.needed.into()
            && function.size > slot.end.into();
        if same { Ok(slot.found) } else { Err(Some(Key { instructions, cie, slot: slot_number })) }
    }

    /// Remembers what the instructions of `key` gave, if they give it everywhere.
    #[inline]
    pub(super) fn remember(&mut self, key: Key<'a>, ran: Ran, found: Remembered) {
        if let (Ok(needed), Ok(end)) = (u16::try_from(ran.needed), u32::try_from(ran.end))
            && !ran.names_address
        {
            let len = key.instructions.len();
            let slot = &mut self.slots[key.slot];
            slot.instructions[..len].copy_from_slice(key.instructions);
            *slot = Slot { len: len as u8, cie: key.cie, needed, end, found, ..*slot };
        }
    }

    #[inline]
    fn cie(&mut self, cie: &Cie<'a>) -> Option<u8> {
        match self.cies.get(self.last_cie) {
            Some(last) if last.offset == cie.offset && last.means_the_same(cie) => Some(self.last_cie as u8),
            _ => self.other_cie(cie),
        }
    }

    #[cold]
    fn other_cie(&mut self, cie: &Cie<'a>) -> Option<u8> {
        let known =
            (self.cies.iter().position(|known| known.offset == cie.offset && known.means_the_same(cie)))
                .or_else(|| self.cies.iter().position(|known| known.means_the_same(cie)));
        if known.is_none() {
            if self.cies.len() == MAX_CIES {
                return None;
            }
            self.cies.push(*cie);
        }
        self.last_cie = known.unwrap_or(self.cies.len() - 1);
        Some(self.last_cie as u8)
    }
}

#[inline]
fn without_trailing_zeros(mut bytes: &[u8]) -> &[u8] {
    while let Some((rest, tail)) = bytes.split_last_chunk::<8>() {
        let zeros = u64::from_le_bytes(*tail).leading_zeros() as usize / 8;
        if zeros < 8 {
            return &bytes[..bytes.len() - zeros];
        }
        bytes = rest;
    }
    while let [rest @ .., 0] = bytes {
        bytes = rest;
    }
    bytes
}
