//! Joins the blocks of several builders, and writes them.

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use cfipack_format::pool::{Pool, Serial, map, part_len};
use cfipack_format::sframe::MAX_SHARED_FRES;
use cfipack_format::widen::ToUsize;

use super::Blocks;
use crate::sframe::table::chunk::CHUNK;
use crate::sframe::table::hash_index::{HashIndex, hash};
use crate::sframe::table::pieces::{Pieces, Place};

/// With fewer bytes, a thread costs more than it saves.
const LEAST_OF_A_THREAD: usize = 1 << 15;

impl<'a> Blocks<'a> {
    /// Copies lent blocks, so that nothing is borrowed.
    pub(crate) fn into_owned(mut self) -> Blocks<'static> {
        if self.pieces.borrow() {
            self.bytes = self.take_bytes(0, &Serial);
            (self.front, self.end) = (0, self.bytes.len());
            self.pieces = Pieces::default();
            self.make_room();
        }
        let Self { bytes, front, end, pieces, starts, attributes, index, seed, version, endian } = self;
        let pieces = pieces.into_owned();
        Blocks { bytes, front, end, pieces, starts, attributes, index, seed, version, endian }
    }

    /// Writes the sub-section, on the threads of a pool.
    pub(crate) fn write(&self, pool: &dyn Pool, out: &mut [u8]) {
        let own = &self.bytes[self.front..self.end];
        let part_len = part_len(pool, out.len(), LEAST_OF_A_THREAD);
        let parts = out.chunks_mut(part_len).zip((0..).step_by(part_len)).collect();
        map(pool, parts, |(out, at)| self.pieces.write(own, at, out));
    }

    /// Moves the bytes of some runs of blocks together, and returns them as pieces. All other blocks lose their bytes.
    /// No block can be added or read afterwards.
    pub(crate) fn keep(&mut self, runs: &[Range<u32>]) -> Pieces<'a> {
        let mut bytes = mem::take(&mut self.bytes);
        let (mut kept, mut own, own_memory) = (Pieces::default(), 0, self.pieces.memories() as u32);
        let mut next = 0;
        for run in runs {
            let (from, to, at) = (self.end_of(run.start), self.end_of(run.end), kept.sum());
            self.pieces.for_each_in(from..to, |len, place| {
                let (memory, from) = match place {
                    Place::Own(from) => {
                        let from = self.front + from;
                        bytes.copy_within(from..from + len, own);
                        own += len;
                        (own_memory, own - len)
                    }
                    Place::Other(memory, from) => (memory, from),
                };
                kept.add(kept.sum(), memory, from as u32, len as u32);
            });
            let (run_start, run_end) = (run.start.to_usize(), run.end.to_usize());
            self.starts[next..run_start].fill(at);
            self.starts[run_start..run_end].iter_mut().for_each(|start| *start = *start - from as u32 + at);
            next = run_end;
        }
        self.starts[next..].fill(kept.sum());
        bytes.truncate(own);
        bytes.shrink_to_fit();
        kept.with_memories(mem::take(&mut self.pieces), bytes)
    }

    /// Adds the blocks of shards. Each has its offset and its bytes, as [`keep`](Self::keep) returned them. No block
    /// can be added before the blocks can be [found](Self::rebuild_index) again.
    pub(crate) fn append(
        &mut self,
        pool: &dyn Pool,
        others: &[&Blocks<'_>],
        bytes: Vec<(usize, Pieces<'a>)>,
    ) {
        let count = others.iter().map(|blocks| blocks.len()).sum();
        self.starts.reserve(count);
        if let Some(index) = &mut self.index {
            index.end_lookups();
            index.hashes.reserve(count);
        }
        for (blocks, (at, _)) in others.iter().zip(&bytes) {
            self.starts.extend(blocks.starts.iter().map(|start| *at as u32 + start));
            self.attributes.extend(&blocks.attributes);
            if let Some(index) = &mut self.index {
                index.hashes.extend(blocks.hashes());
            }
        }
        self.pieces.append(pool, bytes);
    }

    /// Hashes all blocks with `seed`. No block can be added afterwards.
    pub(crate) fn end_lookups(&mut self, seed: u64) {
        let index = self.index.take().filter(|_| self.seed == seed);
        let hashes = index.map_or_else(|| self.hash_again(seed), |index| index.hashes);
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
        self.index.as_ref().map_or(&[], |index| &index.hashes)
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
