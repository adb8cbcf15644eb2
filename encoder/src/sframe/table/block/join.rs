//! Joins the blocks of several builders, and writes them.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::pool::{Pool, Serial, map, part_len};
use cfipack_format::sframe::MAX_SHARED_FRES;
use cfipack_format::widen::ToUsize;

use super::Blocks;
use crate::sframe::table::chunk::CHUNK;
use crate::sframe::table::hash_index::{HashIndex, hash};
use crate::sframe::table::pieces::{Pieces, Place};
use crate::sframe::table::wide_attribute::WideAttribute;

/// With fewer bytes, a thread costs more than it saves.
const LEAST_OF_A_THREAD: usize = 1 << 15;

impl<'a> Blocks<'a> {
    /// Copies lent blocks, so that all blocks are stored here.
    pub(crate) fn into_owned(mut self) -> Blocks<'static> {
        let Self { version, endian, seed, .. } = self;
        if !self.pieces.is_empty() {
            self.bytes = self.take_bytes(0, &Serial);
            (self.front, self.end) = (0, self.bytes.len());
            self.make_room();
        }
        let Self { bytes, front, end, starts, attributes, index, .. } = self;
        let pieces = Pieces::default();
        Blocks { bytes, front, end, pieces, starts, attributes, index, seed, version, endian }
    }

    /// Writes the sub-section, on the threads of a pool.
    pub(crate) fn write(&self, pool: &dyn Pool, out: &mut [u8]) {
        let own = &self.bytes[self.front..self.end];
        let part_len = part_len(pool, out.len(), LEAST_OF_A_THREAD);
        let parts = out.chunks_mut(part_len).zip((0..).step_by(part_len)).collect();
        map(pool, parts, |(out, at)| self.pieces.write(own, at, out));
    }

    /// Calls `take` with the length and the place of each part of some blocks.
    pub(crate) fn for_each_part(&self, run: Range<u32>, mut take: impl FnMut(usize, Place<'a>)) {
        self.pieces.for_each_in(self.end_of(run.start)..self.end_of(run.end), |len, place| match place {
            Place::Own(at) => take(len, Place::Own(self.front + at)),
            lent => take(len, lent),
        });
    }

    /// Adds memory for blocks, of which `own` bytes are stored here. If these are the first blocks, they follow
    /// `front` bytes. No block can be added before the blocks can be [found](Self::rebuild_index) again.
    pub(crate) fn extend(&mut self, blocks: usize, own: usize, front: usize) -> NewPlaces<'_> {
        let old = self.starts.len();
        if old == 0 && own != 0 {
            // Zeroed memory is not touched before it is used.
            self.front = self.front.max(front);
            self.bytes = vec![0; self.front + own + CHUNK];
            self.end = self.front;
        }
        let at = self.end;
        self.end += own;
        let needed = self.end + CHUNK;
        if own != 0 && self.bytes.len() < needed {
            self.bytes.reserve_exact(needed - self.bytes.len());
            self.bytes.resize(needed, 0);
        }
        self.starts.reserve_exact(blocks);
        self.starts.resize(old + blocks, 0);
        if !self.version.has_attributes() {
            self.attributes.resize(old + blocks, WideAttribute::default());
        }
        NewPlaces {
            starts: &mut self.starts[old..],
            attributes: self.attributes.get_mut(old..).unwrap_or_default(),
            hashes: self.index.as_mut().map(|index| index.extend(blocks)).unwrap_or_default(),
            bytes: self.bytes.get_mut(at..self.end).unwrap_or_default(),
        }
    }

    /// Adds the pieces of blocks that were added to other blocks, each at an offset.
    pub(crate) fn append_pieces(&mut self, pool: &dyn Pool, pieces: &[(usize, &Pieces<'a>)]) {
        self.pieces.append(pool, pieces);
    }

    /// Hashes all blocks with `seed`. No block can be added afterwards.
    pub(crate) fn end_lookups(&mut self, seed: u64) {
        let index = self.index.take().filter(|_| self.seed == seed);
        let hashes = index.map_or_else(|| self.hash_again(seed), HashIndex::into_hashes);
        self.index = Some(HashIndex::without_slots(hashes));
    }

    fn hash_again(&self, seed: u64) -> Vec<u32> {
        let mut bytes = Vec::new();
        let hashes = (0..self.len() as u32).map(|number| {
            let block = self.block(number);
            bytes.clear();
            bytes.extend_from_slice(block);
            bytes.resize(block.len() + CHUNK, 0);
            hash(seed, &bytes, block.len())
        });
        hashes.collect()
    }

    /// The hash of each block, if blocks are shared.
    pub(crate) fn hashes(&self) -> &[u32] {
        self.index.as_ref().map(HashIndex::hashes).unwrap_or_default()
    }

    /// Frees memory that only looking up and adding blocks need.
    pub(crate) fn end_waiting(&mut self) {
        if let Some(index) = &mut self.index {
            index.end_lookups();
        }
        self.starts.shrink_to_fit();
        self.bytes.truncate(self.end + CHUNK);
        self.bytes.shrink_to_fit();
    }

    /// Makes all blocks findable.
    pub(crate) fn rebuild_index(&mut self) {
        if let Some(index) = &mut self.index {
            index.rebuild();
        }
    }

    /// Returns whether a block can stand for block `other` of `others`.
    #[inline]
    pub(crate) fn equals(&self, number: u32, others: &Blocks<'_>, other: u32) -> bool {
        let start = others.starts[other.to_usize()].to_usize();
        let len = others.end_of(other + 1) - start;
        len <= MAX_SHARED_FRES
            && self.known(self.starts[number.to_usize()].to_usize(), len) == others.known(start, len)
            && self.attribute(number) == others.attribute(other)
    }
}

/// The memory for new blocks.
pub(crate) struct NewPlaces<'n> {
    starts: &'n mut [u32],
    attributes: &'n mut [WideAttribute],
    hashes: &'n mut [u32],
    bytes: &'n mut [u8],
}

impl<'n> NewPlaces<'n> {
    /// Takes the memory for the next blocks, of which `own` bytes are stored here.
    pub(crate) fn split(&mut self, blocks: usize, own: usize) -> Self {
        fn take<'s, T>(rest: &mut &'s mut [T], count: usize) -> &'s mut [T] {
            rest.split_off_mut(..count.min(rest.len())).unwrap_or_default()
        }
        NewPlaces {
            starts: take(&mut self.starts, blocks),
            attributes: take(&mut self.attributes, blocks),
            hashes: take(&mut self.hashes, blocks),
            bytes: take(&mut self.bytes, own),
        }
    }

    /// Copies runs of `blocks`, and the ranges `own` of their bytes. The first block gets the offset `at`.
    pub(crate) fn fill(self, blocks: &Blocks<'_>, mut at: u32, runs: &[Range<u32>], own: &[Range<usize>]) {
        let mut number = 0;
        for run in runs {
            let (from, to) = (blocks.end_of(run.start) as u32, blocks.end_of(run.end) as u32);
            let run = run.start.to_usize()..run.end.to_usize();
            let slots = number..number + run.len();
            let starts = self.starts[slots.clone()].iter_mut().zip(&blocks.starts[run.clone()]);
            starts.for_each(|(slot, start)| *slot = at + (start - from));
            if let Some(slots) = self.attributes.get_mut(slots.clone()) {
                slots.copy_from_slice(&blocks.attributes[run.clone()]);
            }
            if let Some(slots) = self.hashes.get_mut(slots.clone()) {
                slots.copy_from_slice(&blocks.hashes()[run]);
            }
            (at, number) = (at + (to - from), slots.end);
        }
        let mut out = self.bytes;
        for range in own {
            let bytes = &blocks.bytes[range.clone()];
            out.split_off_mut(..bytes.len()).unwrap_or_default().copy_from_slice(bytes);
        }
    }
}
