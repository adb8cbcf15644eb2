//! What one builder has taken, added to another.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::Builder;
use super::block::{Blocks, GROUP};
use super::entries::Entry;
use super::hash_index::HashIndex;
use super::parallel::run;
use crate::Reason;

/// For fewer blocks it is not worth while to start a thread.
const LEAST_OF_A_THREAD: usize = 1 << 12;

/// The number of a block that is not here.
const NOT_HERE: u32 = u32::MAX;

impl Builder<'_> {
    /// Adds what a builder with the same architecture and options has taken, as if its functions
    /// had been pushed here one by one.
    pub fn absorb(&mut self, shard: Self) -> Result<(), Reason> {
        let hashes = shard.block_hashes();
        self.absorb_hashed(shard, hashes)
    }

    /// The hash of each block; empty where none are shared.
    pub(super) fn block_hashes(&self) -> Vec<u32> {
        self.entries.blocks.index.as_ref().map(HashIndex::hashes).unwrap_or_default()
    }

    /// Absorbs a shard with these [hashes](Self::block_hashes).
    pub(super) fn absorb_hashed(&mut self, shard: Self, mut hashes: Vec<u32>) -> Result<(), Reason> {
        let (other, blocks) = (&shard.entries.blocks, &mut self.entries.blocks);
        if other.seed() != blocks.seed() {
            for (number, hash) in hashes.iter_mut().enumerate() {
                let (start, len) = other.place(number);
                *hash = blocks.hash(&other.bytes[start..], len);
            }
        }
        let threads = if other.len() < LEAST_OF_A_THREAD { 1 } else { self.threads };
        let mut numbers = vec![NOT_HERE; other.len()];
        let part_len = hashes.len().div_ceil(threads).max(1);
        let parts = numbers.chunks_mut(part_len).zip(hashes.chunks(part_len)).enumerate().collect();
        run(threads, parts, |(part, (numbers, hashes))| {
            find_all(blocks, other, part * part_len, hashes, numbers);
        });
        let new = New::add(blocks, other, &mut numbers)?;
        let tasks = Vec::from([
            Task::Bytes(&mut blocks.bytes),
            Task::Entries(blocks.index.as_mut(), &mut self.entries.list),
        ]);
        run(threads, tasks, |task| match task {
            Task::Bytes(bytes) => new.copy(other, bytes),
            Task::Entries(index, list) => {
                if let Some(index) = index {
                    new.numbers
                        .iter()
                        .zip(new.first..)
                        .for_each(|(&there, here)| index.insert(hashes[there], here));
                }
                let number_here = |entry: &Entry| Entry { block: numbers[entry.block as usize], ..*entry };
                list.extend(shard.entries.list.iter().map(number_here));
            }
        });
        self.entries.num_fres += shard.entries.num_fres;
        self.entries.refused.extend(shard.entries.refused);
        Ok(())
    }
}

/// What is done at the same time.
enum Task<'t> {
    Bytes(&'t mut Vec<u8>),
    Entries(Option<&'t mut HashIndex>, &'t mut Vec<Entry>),
}

/// Finds the numbers here of another builder's blocks from `first` on, which have these hashes.
fn find_all(blocks: &Blocks, other: &Blocks, first: usize, hashes: &[u32], numbers: &mut [u32]) {
    let groups = numbers.chunks_mut(GROUP).zip(hashes.chunks(GROUP));
    for ((numbers, hashes), first) in groups.zip((first..).step_by(GROUP)) {
        blocks.touch(hashes.iter().copied());
        for ((place, hash), number) in numbers.iter_mut().zip(hashes).zip(first..) {
            let (start, len) = other.place(number);
            let found = blocks.find(*hash, &other.bytes[start..], len, other.attribute_or_none(number));
            *place = found.unwrap_or(NOT_HERE);
        }
    }
}

/// The blocks of another builder that are not here. They are not the same as one another either.
struct New {
    /// Their numbers there.
    numbers: Vec<usize>,
    /// The number here of the first.
    first: u32,
    /// Where their bytes lie there, in pieces, and where they go.
    pieces: Vec<Range<usize>>,
    at: usize,
}

impl New {
    /// Gives numbers to the blocks that have none, and adds all but their bytes and hashes.
    fn add(blocks: &mut Blocks, other: &Blocks, numbers: &mut [u32]) -> Result<Self, Reason> {
        let (first, at) = (blocks.len() as u32, blocks.end);
        let mut new = Self { numbers: Vec::new(), first, pieces: Vec::new(), at };
        for (number, place) in numbers.iter_mut().enumerate().filter(|(_, place)| **place == NOT_HERE) {
            let (start, len) = other.place(number);
            if !blocks.has_room(len) {
                return Err(Reason::SectionSize);
            }
            *place = blocks.add_place(len, other.attribute_or_none(number));
            new.numbers.push(number);
            match new.pieces.last_mut() {
                Some(piece) if piece.end == start => piece.end += len,
                _ => new.pieces.push(start..start + len),
            }
        }
        blocks.make_room();
        Ok(new)
    }

    fn copy(&self, other: &Blocks, bytes: &mut [u8]) {
        let mut at = self.at;
        for piece in &self.pieces {
            bytes[at..at + piece.len()].copy_from_slice(&other.bytes[piece.clone()]);
            at += piece.len();
        }
    }
}
