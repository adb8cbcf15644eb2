//! Functions whose call frame instructions have been seen before.
//!
//! Two functions with the same instructions and the same CIE have the same rows, wherever they
//! lie. Two thirds of the functions of a large program are such repetitions, so looking an FDE up
//! by its bytes saves most of the interpreting.

use alloc::vec::Vec;

use super::hash_index::{HashIndex, hash};
use crate::cfi::{Cie, Function};

/// Instructions that have been interpreted, and the block they gave.
#[derive(Clone, Copy, Debug)]
struct Program<'a> {
    /// Without trailing zero bytes, which are padding or zero operands.
    instructions: &'a [u8],
    cie: u32,
    block: u32,
    /// Bytes of instructions that must be there, zeros included.
    needed: u32,
    /// The location that the instructions end at: all of it lies inside a larger function.
    end: u32,
}

/// What has been interpreted so far.
#[derive(Clone, Debug)]
pub(super) struct Memo<'a> {
    programs: Vec<Program<'a>>,
    index: HashIndex,
    /// CIEs that differ in meaning.
    cies: Vec<Cie<'a>>,
    last_cie: usize,
    seed: u64,
}

/// The key of a function that was not found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    instructions: &'a [u8],
    cie: u32,
    hash: u32,
}

/// Real sections have a handful of CIEs; beyond this many, functions are interpreted every time.
const MAX_CIES: usize = 64;

impl<'a> Memo<'a> {
    pub(super) fn new(seed: u64) -> Self {
        Self { programs: Vec::new(), index: HashIndex::new(), cies: Vec::new(), last_cie: 0, seed }
    }

    /// The block of a function with the same instructions, or the key to remember it by.
    #[inline]
    pub(super) fn find(&mut self, function: &Function<'a>) -> Result<u32, Option<Key<'a>>> {
        let cie = self.cie(&function.cie).ok_or(None)?;
        let instructions = without_trailing_zeros(function.instructions);
        let hash = hash(self.seed ^ u64::from(cie), instructions);
        let found = self.index.find(hash, |number| {
            let program = &self.programs[number as usize];
            program.cie == cie
                && program.instructions == instructions
                && function.instructions.len() >= program.needed as usize
                && function.size > u64::from(program.end)
        });
        match found {
            Some(number) => Ok(self.programs[number as usize].block),
            None => Err(Some(Key { instructions, cie, hash })),
        }
    }

    /// Remembers that the instructions of `key`, of which `needed` bytes count and which end at
    /// location `end`, gave a block.
    #[inline]
    pub(super) fn remember(&mut self, key: Key<'a>, block: u32, needed: usize, end: u64) {
        if let (Ok(needed), Ok(end)) = (u32::try_from(needed), u32::try_from(end)) {
            self.index.insert(key.hash, self.programs.len() as u32);
            let Key { instructions, cie, .. } = key;
            self.programs.push(Program { instructions, cie, block, needed, end });
        }
    }

    #[inline]
    fn cie(&mut self, cie: &Cie<'a>) -> Option<u32> {
        match self.cies.get(self.last_cie) {
            Some(last) if last.offset == cie.offset && last.means_the_same(cie) => Some(self.last_cie as u32),
            _ => self.other_cie(cie),
        }
    }

    fn other_cie(&mut self, cie: &Cie<'a>) -> Option<u32> {
        let known = self.cies.iter().position(|known| known.means_the_same(cie));
        self.last_cie = known.unwrap_or(self.cies.len());
        if known.is_none() {
            if self.cies.len() == MAX_CIES {
                return None;
            }
            self.cies.push(*cie);
        }
        Some(self.last_cie as u32)
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
