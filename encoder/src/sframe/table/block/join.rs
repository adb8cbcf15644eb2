//! Joins the blocks of several builders, and copies blocks from a caller's memory.

use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::sframe::MAX_SHARED_FRES;
use cfipack_format::widen::ToUsize;

use super::Blocks;
use crate::Reason;
use crate::sframe::table::pieces::{Pieces, Place};

impl<'a> Blocks<'a> {
    /// Copies lent blocks, so that all blocks are stored here.
    pub(crate) fn into_owned(mut self) -> Blocks<'static> {
        let Self { version, endian, seed, .. } = self;
        if !self.pieces.is_empty() {
            self.bytes = self.take_bytes(0);
            (self.front, self.end) = (0, self.bytes.len());
            self.make_room();
        }
        let Self { bytes, front, end, starts, attributes, index, .. } = self;
        let pieces = Pieces::default();
        Blocks { bytes, front, end, pieces, starts, attributes, index, seed, version, endian }
    }

    /// Writes the sub-section.
    pub(crate) fn write(&self, out: &mut [u8]) {
        self.pieces.write(&self.bytes[self.front..self.end], out);
    }

    /// Adds the places of a run of blocks of `others`, but neither their hashes nor their bytes. The caller
    /// must copy the ranges of [`others.bytes`](Self::bytes) that this function adds to `own`. Returns the
    /// number of the first block in `self`.
    pub(crate) fn append_places(
        &mut self,
        others: &Self,
        run: Range<u32>,
        own: &mut Vec<Range<usize>>,
    ) -> u32 {
        let (first, base) = (self.starts.len() as u32, self.len_in_bytes() as u32);
        let (start, end) = (others.end_of(run.start), others.end_of(run.end));
        let run = run.start.to_usize()..run.end.to_usize();
        self.starts.extend(others.starts[run.clone()].iter().map(|at| base + (at - start as u32)));
        self.attributes.extend_from_slice(others.attributes.get(run).unwrap_or_default());
        others.pieces.for_each_in(start..end, |len, place| match place {
            Place::Own(at) => {
                let place = others.front + at..others.front + at + len;
                match own.last_mut() {
                    Some(last) if last.end == place.start => last.end = place.end,
                    _ => own.push(place),
                }
                self.end += len;
            }
            Place::Lent(memory, range) => self.pieces.push(self.len_in_bytes() as u32, memory, range),
        });
        first
    }

    /// Adds all blocks of `others`. Returns the number of the first block in `self`.
    pub(crate) fn append(&mut self, others: &Self) -> Result<u32, Reason> {
        let (first, at, own) = (self.starts.len() as u32, self.end, others.end - others.front);
        if !self.has_room(others.len_in_bytes()) {
            return Err(Reason::SectionSize);
        }
        // There is room for all bytes, so all starts fit.
        let base = self.len_in_bytes() as u32;
        self.starts.extend(others.starts.iter().map(|start| base + start));
        self.attributes.extend_from_slice(&others.attributes);
        self.pieces.append(base, &others.pieces);
        self.end += own;
        self.make_room();
        self.bytes[at..self.end].copy_from_slice(&others.bytes[others.front..others.end]);
        Ok(first)
    }

    /// Finds the block that is equal to block `number` of `others`, which has this hash. Returns its number.
    #[inline]
    pub(crate) fn find_other(&self, hash: u32, others: &Blocks<'_>, number: usize) -> Option<u32> {
        let start = others.starts[number].to_usize();
        let len = others.end_of(number as u32 + 1) - start;
        if len > MAX_SHARED_FRES {
            return None;
        }
        self.index.as_ref()?.find(hash, |known| {
            self.known(self.starts[known.to_usize()].to_usize(), len) == others.known(start, len)
                && self.attribute(known) == others.attribute(number as u32)
        })
    }
}
