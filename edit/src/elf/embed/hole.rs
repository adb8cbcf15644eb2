//! The place of a table's segment in the file: after all other loaded bytes, before all bytes that are not
//! loaded.

use core::ops::Range;

use super::header::{Header, Segment};
use super::source::Source;

/// The inserted bytes of a segment. Without them, everything after the segment lies where it would lie without a table.
#[derive(Clone, Debug)]
pub(super) struct Hole {
    /// The range in the file: the segment with the zeros around it.
    pub range: Range<u64>,
    /// The end of the bytes before the segment. There can be zeros between it and the range.
    start: u64,
    pub load: Segment,
    /// The bytes after the range may move by multiples of this number.
    pub align: u64,
}

impl Hole {
    /// Finds the bytes that were inserted for a segment. Returns `None` if other bytes are there too. If another program
    /// moved the bytes after the segment closer to it, the range may end within the segment.
    pub fn find(source: &Source<'_>, load: &Segment) -> Option<Self> {
        let end = load.range().end;
        let mut start = source.loaded_end(Some(load));
        if load.offset < start {
            // LIEF's segment comes after the hole.
            start = source.end_before(load);
        }
        if load.offset < start {
            return None;
        }
        let align = source.align_after(end);
        let is_other = |range: &Range<u64>| {
            !range.is_empty() && range.end > start && !load.range().contains(&range.start)
        };
        let sections = source.sections.iter().map(Header::range);
        let segments = source.segments.iter().map(Segment::used);
        let others = sections.chain(segments).chain([source.headers_range()]).filter(is_other);
        let next = others.map(|range| range.start).fold(source.len(), u64::min);
        let room = next.checked_sub(start)? / align * align;
        let len = (end - start).next_multiple_of(align).min(room);
        // Zeros before the segment stay as far as possible, because an empty section can lie behind them.
        let before = (load.offset - start).min(next - start - len);
        let before = if source.is_zero(end..start + len + before) { before } else { 0 };
        let range = start + before..start + before + len;
        let is_zero = source.is_zero(start..load.offset) && source.is_zero(end..range.end);
        (next >= end && is_zero).then_some(Self { range, start, load: *load, align })
    }

    /// Returns by how much the hole has to grow for a segment of `size` bytes.
    pub fn growth(&self, size: u64) -> Option<u64> {
        let len = (self.load.offset - self.start).checked_add(size)?.checked_next_multiple_of(self.align)?;
        Some(len.saturating_sub(self.range.end - self.range.start))
    }
}
