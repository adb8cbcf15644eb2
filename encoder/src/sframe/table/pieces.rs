//! The parts of the FRE sub-section that lie in the caller's memory, between those that are the section's own.

use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::widen::ToUsize;

/// Bytes of a caller, in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    /// What they are part of.
    memory: &'a [u8],
    from: usize,
    len: u32,
    /// Their offset in the sub-section.
    at: u32,
    /// Bytes of this piece and those before it.
    sum: u32,
}

/// The place of a part of the sub-section.
#[derive(Clone, Debug)]
pub(crate) enum Place<'a> {
    /// From an offset in the section's own bytes on.
    Own(usize),
    /// In the memory of a caller.
    Lent(&'a [u8], Range<usize>),
}

/// The pieces of a sub-section, in its order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pieces<'a>(Vec<Piece<'a>>);

impl<'a> Piece<'a> {
    fn bytes(&self) -> &'a [u8] {
        &self.memory[self.from..][..self.len.to_usize()]
    }
}

impl<'a> Pieces<'a> {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all pieces.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.last().map_or(0, |piece| piece.sum.to_usize())
    }

    /// Adds the bytes of a range of `memory` at an offset of the sub-section, which ended there.
    #[inline]
    pub(crate) fn push(&mut self, at: u32, memory: &'a [u8], range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (len, sum) = (range.len() as u32, self.len() as u32);
        match self.0.last_mut() {
            Some(last)
                if last.at + last.len == at
                    && last.from + last.len.to_usize() == range.start
                    && core::ptr::eq(last.memory, memory) =>
            {
                last.len += len;
                last.sum += len;
            }
            _ => self.0.push(Piece { memory, from: range.start, len, at, sum: sum + len }),
        }
    }

    /// Adds the pieces of another sub-section, which begins at an offset of this one.
    pub(crate) fn append(&mut self, at: u32, others: &Self) {
        let sum = self.len() as u32;
        self.0.extend(others.0.iter().map(|piece| Piece { at: at + piece.at, sum: sum + piece.sum, ..*piece }));
    }

    /// The place of the `len` bytes of a block at an offset of the sub-section; all of a block lie in the same.
    #[inline]
    pub(crate) fn place(&self, at: usize, len: usize) -> Place<'a> {
        let next = self.0.partition_point(|piece| piece.at.to_usize() <= at);
        let Some(piece) = next.checked_sub(1).map(|last| &self.0[last]) else { return Place::Own(at) };
        let offset = at - piece.at.to_usize();
        if offset < piece.len.to_usize() {
            let start = piece.from + offset;
            return Place::Lent(piece.memory, start..start + len);
        }
        Place::Own(at - piece.sum.to_usize())
    }

    /// Writes a sub-section, which has these bytes of its own.
    pub(crate) fn write(&self, own: &[u8], out: &mut [u8]) {
        let (mut own, mut out, mut at) = (own, out, 0);
        for piece in &self.0 {
            let before;
            (before, own) = own.split_at(piece.at.to_usize() - at);
            let (to, rest) = out.split_at_mut(before.len());
            to.copy_from_slice(before);
            let (to, rest) = rest.split_at_mut(piece.len.to_usize());
            to.copy_from_slice(piece.bytes());
            (out, at) = (rest, (piece.at + piece.len).to_usize());
        }
        out.copy_from_slice(own);
    }

    /// Gives back memory for pieces to come.
    pub(crate) fn end_growth(&mut self) {
        self.0.shrink_to_fit();
    }
}
