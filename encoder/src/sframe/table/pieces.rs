//! The parts of the FRE sub-section that lie in other memories: in the memory of a caller, or in the bytes of a
//! shard. They lie between the parts that are in the section's own bytes.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::pool::{Pool, map};
use cfipack_format::widen::ToUsize;

/// A piece of a memory. Its length is the difference between two sums.
#[derive(Clone, Copy, Default, Debug)]
struct Piece {
    /// The number of the memory, and the offset of the piece in the memory.
    memory: u32,
    from: u32,
    /// The offset of the piece in the sub-section.
    at: u32,
    /// Bytes of this piece and all pieces before it.
    sum: u32,
}

/// The place of a part of the sub-section.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// At an offset in the section's own bytes.
    Own(usize),
    /// In a memory: its number, and an offset.
    Other(u32, usize),
}

/// The pieces of a sub-section, in order.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pieces<'a> {
    memories: Vec<Cow<'a, [u8]>>,
    list: Vec<Piece>,
    /// For each [`STEP`] bytes of the sub-section: the first piece that begins after the start of these bytes.
    /// The list ends at the last piece.
    later: Vec<u32>,
}

/// The distance between two places in `later`, in bytes. Between them, pieces are searched one after the other.
const STEP: usize = 256;

impl<'a> Pieces<'a> {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes of all pieces.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.sum().to_usize()
    }

    #[inline(always)]
    pub(crate) fn sum(&self) -> u32 {
        self.list.last().map_or(0, |piece| piece.sum)
    }

    /// Bytes of a piece.
    #[inline(always)]
    fn len_of(&self, number: usize) -> u32 {
        self.list[number].sum - number.checked_sub(1).map_or(0, |before| self.list[before].sum)
    }

    /// Adds a range of `memory` at offset `at`, which is the current end of the sub-section.
    #[inline]
    pub(crate) fn push(&mut self, at: u32, memory: &'a [u8], range: Range<usize>) {
        let len = range.len() as u32;
        if len == 0 {
            return;
        }
        let is_last = self.memories.last().is_some_and(|last| core::ptr::eq(&**last, memory));
        let from = u32::try_from(range.start);
        match from {
            Ok(_) if is_last => {}
            Ok(_) => self.memories.push(Cow::Borrowed(memory)),
            Err(_) => self.memories.push(Cow::Borrowed(&memory[range])),
        }
        self.add(at, self.memories.len() as u32 - 1, from.unwrap_or(0), len);
    }

    /// Adds a piece at offset `at`, which is the current end of the sub-section. The memory may be added later.
    #[inline(always)]
    pub(crate) fn add(&mut self, at: u32, memory: u32, from: u32, len: u32) {
        if let Some(last) = self.list.len().checked_sub(1) {
            let last_len = self.len_of(last);
            let last = &mut self.list[last];
            if last.memory == memory
                && last.at + last_len == at
                && last.from.to_usize() + last_len.to_usize() == from.to_usize()
            {
                last.sum += len;
                return;
            }
        }
        self.push_piece(Piece { memory, from, at, sum: self.sum() + len });
    }

    /// The number of memories.
    pub(crate) fn memories(&self) -> usize {
        self.memories.len()
    }

    /// Returns a memory by its number.
    #[inline(always)]
    pub(crate) fn memory(&self, number: u32) -> &[u8] {
        &self.memories[number.to_usize()]
    }

    /// Returns these pieces in the memories of `old`, with one more memory of `bytes`.
    pub(crate) fn with_memories(self, old: Self, bytes: Vec<u8>) -> Self {
        let mut memories = old.memories;
        memories.push(Cow::Owned(bytes));
        Self { memories, ..self }
    }

    /// Returns whether pieces lie in a caller's memory.
    pub(crate) fn borrow(&self) -> bool {
        self.memories.iter().any(|memory| matches!(memory, Cow::Borrowed(_)))
    }

    /// Copies the memories of callers.
    pub(crate) fn into_owned(self) -> Pieces<'static> {
        let Self { memories, list, later } = self;
        let memories = memories.into_iter().map(|memory| Cow::Owned(memory.into_owned())).collect();
        Pieces { memories, list, later }
    }

    #[inline(never)]
    fn push_piece(&mut self, piece: Piece) {
        let steps = piece.at.to_usize().div_ceil(STEP);
        if steps > self.later.len() {
            self.later.resize(steps, self.list.len() as u32);
        }
        self.list.push(piece);
    }

    /// Adds the pieces of other sub-sections, each with its offset in this sub-section, on the threads of a
    /// pool. The pieces follow all pieces that are there.
    pub(crate) fn append(&mut self, pool: &dyn Pool, others: Vec<(usize, Self)>) {
        let others = others.into_iter().filter(|(_, others)| !others.is_empty());
        let (mut sum, mut number) = (self.sum(), self.list.len());
        let (mut memories, mut steps) = (self.memories.len(), self.later.len());
        let places = others.map(|(at, others)| {
            let place = (at as u32, sum, memories as u32, number as u32);
            sum += others.sum();
            memories += others.memories.len();
            number += others.list.len();
            let last = others.list.last().map_or(0, |piece| piece.at.to_usize());
            let more = (at + last).div_ceil(STEP).saturating_sub(steps);
            steps += more;
            (place, more, others)
        });
        let places: Vec<_> = places.collect();
        let (pieces, old_steps) = (self.list.len(), self.later.len());
        self.list.resize(number, Piece::default());
        self.later.resize(steps, 0);
        self.memories.reserve_exact(memories - self.memories.len());
        let (mut list, mut later) = (&mut self.list[pieces..], &mut self.later[old_steps..]);
        let mut steps = old_steps;
        let parts = places.into_iter().map(|(place, more, others)| {
            self.memories.extend(others.memories);
            let part = Part {
                place,
                list: list.split_off_mut(..others.list.len()).unwrap_or_default(),
                others: others.list,
                later: later.split_off_mut(..more).unwrap_or_default(),
                steps,
            };
            steps += more;
            part
        });
        map(pool, parts.collect(), Part::write);
    }

    /// Returns the number of the first piece that begins after an offset.
    #[inline(always)]
    fn later_than(&self, at: usize) -> usize {
        let mut next = self.later.get(at / STEP).map_or(self.list.len(), |next| next.to_usize());
        while self.list.get(next).is_some_and(|piece| piece.at.to_usize() <= at) {
            next += 1;
        }
        next
    }

    /// Calls `take` with the length and the place of each part of a range of the sub-section, in order.
    #[inline(always)]
    pub(crate) fn for_each_in(&self, range: Range<usize>, mut take: impl FnMut(usize, Place)) {
        let (mut at, first) = (range.start, self.later_than(range.start).saturating_sub(1));
        let mut sum = first.checked_sub(1).map_or(0, |before| self.list[before].sum);
        for &Piece { memory, from, at: start, sum: with_this } in &self.list[first..] {
            let (start, len) = (start.to_usize(), (with_this - sum).to_usize());
            if start >= range.end {
                break;
            }
            if at < start {
                take(start - at, Place::Own(at - sum.to_usize()));
                at = start;
            }
            let end = range.end.min(start + len);
            if at < end {
                take(end - at, Place::Other(memory, from.to_usize() + at - start));
                at = end;
            }
            sum = with_this;
        }
        if at < range.end {
            take(range.end - at, Place::Own(at - sum.to_usize()));
        }
    }

    /// Returns the place of a block at an offset of the sub-section. A block never lies in two places.
    #[inline]
    pub(crate) fn place(&self, at: usize) -> Place {
        let Some(number) = self.later_than(at).checked_sub(1) else { return Place::Own(at) };
        let piece = self.list[number];
        let offset = at - piece.at.to_usize();
        if offset < self.len_of(number).to_usize() {
            return Place::Other(piece.memory, piece.from.to_usize() + offset);
        }
        Place::Own(at - piece.sum.to_usize())
    }

    /// Writes the bytes of the sub-section from offset `at` on. `own` are the bytes that the section owns.
    pub(crate) fn write(&self, own: &[u8], at: usize, mut out: &mut [u8]) {
        self.for_each_in(at..at + out.len(), |len, place| {
            let bytes = match place {
                Place::Own(at) => &own[at..at + len],
                Place::Other(memory, from) => &self.memory(memory)[from..from + len],
            };
            out.split_off_mut(..len).unwrap_or_default().copy_from_slice(bytes);
        });
    }

    /// Frees the memory for more pieces.
    pub(crate) fn end_growth(&mut self) {
        self.memories.shrink_to_fit();
        self.list.shrink_to_fit();
        self.later.shrink_to_fit();
    }
}

/// The place of another sub-section's pieces.
struct Part<'p> {
    /// The sub-section's offset, and the bytes, memories and pieces before it.
    place: (u32, u32, u32, u32),
    others: Vec<Piece>,
    list: &'p mut [Piece],
    later: &'p mut [u32],
    /// The number of steps before `later`.
    steps: usize,
}

impl Part<'_> {
    fn write(self) {
        let (at, sum, memories, first) = self.place;
        let mut step = 0;
        for ((slot, piece), number) in self.list.iter_mut().zip(&self.others).zip(first..) {
            *slot = Piece {
                memory: memories + piece.memory,
                from: piece.from,
                at: at + piece.at,
                sum: sum + piece.sum,
            };
            let steps = slot.at.to_usize().div_ceil(STEP).saturating_sub(self.steps);
            self.later[step..steps.max(step)].fill(number);
            step = steps.max(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use cfipack_format::pool::Serial;

    use super::{Pieces, Place};

    /// Blocks of many lengths. Some lie in a caller's memory, and some of these lie side by side.
    #[test]
    fn all_is_found_where_it_was_put() {
        let memories = [(0..=255).collect::<Vec<u8>>().repeat(20), vec![9; 3000]];
        let (mut whole, mut own, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        let mut halves = [Pieces::default(), Pieces::default()];
        let middle = 300;
        let mut base = 0;
        for number in 0..700usize {
            let len = number * 7 % 23 + usize::from(number % 97 == 0) * 700;
            let at = whole.len();
            if number == middle {
                base = at;
            }
            let pieces = &mut halves[usize::from(number >= middle)];
            let memory = &memories[number / 50 % 2];
            if number % 10 < 4 {
                own.extend((0..len).map(|byte| (byte + number) as u8));
                whole.extend_from_slice(&own[own.len() - len..]);
            } else {
                let start = number * 3 % 1000;
                pieces.push((at - base) as u32, memory, start..start + len);
                // This range follows the range before it.
                pieces.push((at - base + len) as u32, memory, start + len..start + 2 * len);
                whole.extend_from_slice(&memory[start..start + 2 * len]);
            }
            blocks.push((at, whole.len() - at));
        }
        let [mut pieces, second] = halves;
        pieces.append(&Serial, vec![(base, second)]);
        let bytes = |place, len: usize| match place {
            Place::Own(at) => &own[at..at + len],
            Place::Other(memory, from) => &pieces.memory(memory)[from..from + len],
        };
        assert_eq!(pieces.len() + own.len(), whole.len());
        for (at, len) in blocks {
            assert_eq!(bytes(pieces.place(at), len), &whole[at..at + len], "{at}");
        }
        let mut parts = Vec::new();
        pieces.for_each_in(7..whole.len() - 9, |len, place| parts.extend_from_slice(bytes(place, len)));
        assert_eq!(parts, whole[7..whole.len() - 9]);
        let mut out = vec![0; whole.len()];
        pieces.write(&own, 0, &mut out);
        assert_eq!(out, whole);
        assert!(pieces.list.len() < 430, "those in a row are one");
    }
}
