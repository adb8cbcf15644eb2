//! Pairs the sections of both files, and finds the sections that moved.

use cfipack_format::widen::ToUsize;
use object::elf;

use super::error::{StructureError, Version};
use super::image::Image;
use super::plain::Section;

/// A section that both files have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) old: usize,
    pub(super) new: usize,
}

/// A range of addresses in the original. Its section has another address in the new file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The number to add to an address, modulo 2^64.
    pub(super) delta: u64,
    pub(super) pair: Pair,
}

/// A range of addresses that a section occupies in the original.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    /// The highest end of this span and all spans before it.
    reach: u64,
    delta: u64,
    /// The number of changes of the delta up to this span.
    run: usize,
}

/// The sections of two files.
pub(super) struct Pairs {
    pub(super) pairs: Vec<Pair>,
    /// For each section of the original, its index in the new file.
    new_of: Vec<Option<u32>>,
    /// True if all sections have kept their indexes.
    pub(super) is_identity: bool,
    /// The sections that moved, in ascending order of their address in the original.
    pub(super) moves: Vec<Move>,
    spans: Vec<Span>,
}

impl Pairs {
    /// Pairs all sections that belong to no table, in their order.
    pub(super) fn new(old: &Image<'_>, new: &Image<'_>) -> Result<Self, StructureError> {
        let kept = |image: &Image<'_>| -> Vec<usize> {
            (0..image.sections.len()).filter(|&index| !image.belongs_to_table(index)).collect()
        };
        let (of_old, of_new) = (kept(old), kept(new));
        if of_old.len() != of_new.len() {
            return Err(StructureError::SectionCount { old: of_old.len(), new: of_new.len() });
        }
        let pairs: Vec<_> = of_old.into_iter().zip(of_new).map(|(old, new)| Pair { old, new }).collect();
        let mut new_of = vec![None; old.sections.len()];
        for pair in &pairs {
            new_of[pair.old] = u32::try_from(pair.new).ok();
        }
        let is_identity =
            new_of.iter().enumerate().all(|(old, &new)| new.is_none_or(|new| new.to_usize() == old))
                && pairs.len() == old.sections.len();
        let mut moves = Vec::new();
        let mut spans = Vec::new();
        for &pair in &pairs {
            let (from, to) = (old.sections[pair.old], new.sections[pair.new]);
            if !from.has_memory() {
                continue;
            }
            let (start, end) = (from.addr, from.addr.saturating_add(from.size));
            let delta = to.addr.wrapping_sub(start);
            spans.push(Span { start, reach: end, delta, run: 0 });
            if delta != 0 {
                check_movable(old, pair, from, to)?;
                moves.push(Move { start, end, delta, pair });
            }
        }
        moves.sort_by_key(|range| range.start);
        if let Some(two) = moves.windows(2).find(|two| two[0].end > two[1].start) {
            let (offset, end) = (two[1].start, two[0].end);
            return Err(StructureError::Overlap { file: Version::Old, what: "moved sections", offset, end });
        }
        spans.sort_by_key(|span| span.start);
        for index in 1..spans.len() {
            let before = spans[index - 1];
            spans[index].reach = spans[index].reach.max(before.reach);
            spans[index].run = before.run + usize::from(spans[index].delta != before.delta);
        }
        Ok(Self { pairs, new_of, is_identity, moves, spans })
    }

    /// Returns the index in the new file of a section of the original, or `None` for a table.
    pub(super) fn new_of(&self, old: usize) -> Option<usize> {
        let new = (*self.new_of.get(old)?)?;
        Some(new.to_usize())
    }

    /// Returns the move that an address of the original is part of.
    pub(super) fn move_of(&self, address: u64) -> Option<&Move> {
        let after = self.moves.partition_point(|range| range.start <= address);
        self.moves[..after].last().filter(|range| address < range.end)
    }

    /// Returns the address in the new file of an address of the original.
    pub(super) fn new_address(&self, address: u64) -> u64 {
        self.move_of(address).map_or(address, |range| address.wrapping_add(range.delta))
    }

    /// Returns the number to add to the addresses of a range of the original, or `None` if its sections did not move by
    /// the same distance.
    pub(super) fn delta_of(&self, start: u64, size: u64) -> Option<u64> {
        let end = start.saturating_add(size);
        let first = self.spans.partition_point(|span| span.reach <= start);
        let last = self.spans.partition_point(|span| span.start < end);
        match self.spans.get(first..last) {
            None | Some([]) => Some(0),
            Some([span]) => Some(span.delta),
            Some([span, .., other]) => (span.run == other.run).then_some(span.delta),
        }
    }
}

/// Notes without content that depends on their place, so that they may move.
const NOTES: [&[u8]; 5] =
    [b".note.gnu.property", b".note.gnu.build-id", b".note.ABI-tag", b".note.package", b".note.go.buildid"];

/// Checks that a moved section is of a kind that refers to nothing and is found only through headers.
fn check_movable(old: &Image<'_>, pair: Pair, from: Section, to: Section) -> Result<(), StructureError> {
    let has_dynamic = old.segments.iter().any(|segment| segment.kind == elf::PT_DYNAMIC.0);
    let is_read_only = from.flags == elf::SHF_ALLOC.0
        || from.flags == elf::SHF_ALLOC.0 | elf::SHF_INFO_LINK.0 && from.has_relocations();
    let is_movable = match elf::SectionType(from.kind) {
        elf::SHT_PROGBITS => old.name(pair.old) == b".interp",
        elf::SHT_NOTE => NOTES.contains(&old.name(pair.old)),
        elf::SHT_HASH
        | elf::SHT_GNU_HASH
        | elf::SHT_DYNSYM
        | elf::SHT_STRTAB
        | elf::SHT_GNU_VERSYM
        | elf::SHT_GNU_VERNEED
        | elf::SHT_GNU_VERDEF
        | elf::SHT_RELA
        | elf::SHT_RELR => has_dynamic,
        _ => false,
    };
    let is_aligned =
        from.align < 2 || !from.addr.is_multiple_of(from.align) || to.addr.is_multiple_of(from.align);
    if !old.is_relocatable && is_read_only && is_movable && is_aligned {
        return Ok(());
    }
    Err(StructureError::Section { index: pair.new, field: "sh_addr", old: from.addr, new: to.addr })
}
