//! A plan: what a change makes of a file's headers and bytes.

use core::ops::Range;

use cfipack_format::widen::ToU64;
use object::elf;

use super::header::{Header, Segment};
use super::source::{Contents, EHSIZE, Source};
use crate::embed_error::EmbedError;

/// The section's name as the names of sections have it.
pub(super) const NAME: &[u8] = b".sframe\0";

/// Zeros before moved sections in their segment. `llvm-strip` 14 takes the first of segments that start at the same
/// byte, `PT_INTERP` for one, for the one that has the others in it, and loses the segment's alignment.
pub(super) const LEAD: u64 = 8;

/// A changed file. Offsets are those of the new file where nothing else is stated.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Bytes that are dropped at the start of the old file.
    pub skip: u64,
    /// Bytes before the first that stays.
    pub prefix: u64,
    /// The part of the old file that stays before its tail, if that is rebuilt; in the old file.
    pub contents: Contents,
    pub segments: Vec<Segment>,
    /// By how much the old `PT_PHDR` is larger than the old program headers, modulo 2^64.
    pub phdr_surplus: u64,
    pub sections: Vec<Header>,
    /// The index of the section with the names of sections; 0 for none.
    pub names: usize,
    /// Ranges of the old file that become zeros.
    pub cleared: Vec<Range<u64>>,
    pub moves: Vec<Move>,
    /// Values that follow a move.
    pub edits: Vec<Edit>,
    pub table: Option<Table>,
    pub tail: Tail,
}

/// Bytes that move within the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Move {
    /// The offset that they had in the old file.
    pub from: Range<u64>,
    /// The offset that they get.
    pub to: u64,
    /// The distance by which they move in memory, modulo 2^64.
    pub delta: u64,
}

/// Addresses that move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Moved {
    /// The addresses that they had.
    pub addresses: Range<u64>,
    /// The distance by which they move, modulo 2^64.
    pub delta: u64,
}

/// New bytes in place of as many.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    /// The offset that they had in the old file.
    pub offset: u64,
    pub what: String,
    pub bytes: Vec<u8>,
}

/// The place of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// The section's index.
    pub section: usize,
    pub offset: u64,
    /// The number of bytes that it may have.
    pub room: u64,
}

/// The tail after the contents: names of sections, and section headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// All stays where it is; section headers may get other values.
    Keep,
    /// The section headers are written again after the contents, and the names too if they are given.
    Rebuild(Option<Names>),
    /// The contents have the section headers at an offset, but for those that others were written over; the names are
    /// written again after the contents if they are given.
    At(u64, Option<Names>),
}

/// The names of sections: bytes of the old file, and a name to append.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    pub old: Range<u64>,
    pub append: &'static [u8],
}

impl Names {
    /// Bytes of them.
    pub fn len(&self) -> u64 {
        self.old.end - self.old.start + self.append.len().to_u64()
    }
}

impl Plan {
    /// The file as it is.
    pub fn unchanged(source: &Source<'_>) -> Self {
        Self {
            skip: 0,
            prefix: 0,
            contents: source.contents,
            segments: source.segments.clone(),
            sections: source.sections.clone(),
            names: source.names,
            phdr_surplus: source
                .segment(elf::PT_PHDR)
                .map_or(0, |phdr| phdr.file_size.wrapping_sub(source.segments.len().to_u64() * Segment::LEN)),
            cleared: Vec::new(),
            moves: Vec::new(),
            edits: Vec::new(),
            table: None,
            tail: Tail::Keep,
        }
    }

    /// The file with other bytes at its start: `prefix` instead of the first `skip`. Its headers follow, except for
    /// those of what lies in the skipped bytes.
    pub fn shifted(source: &Source<'_>, skip: u64, prefix: u64) -> Self {
        let mut plan = Self { skip, prefix, ..Self::unchanged(source) };
        let shift = |offset: &mut u64| {
            if *offset >= skip {
                *offset = (*offset - skip).wrapping_add(prefix);
            }
        };
        // Empty ones at the file's start, such as PT_GNU_STACK, lie nowhere. Others, such as a PT_TLS without
        // initial values, have the offset of their section.
        let lies = |one: &&mut Segment| one.file_size != 0 || one.offset != 0;
        plan.segments.iter_mut().filter(lies).for_each(|one| shift(&mut one.offset));
        // The first header is no section's.
        let sections = plan.sections.iter_mut().skip(1);
        sections.filter(|one| one.offset != 0).for_each(|one| shift(&mut one.offset));
        plan
    }

    /// The place of a byte of the old file.
    pub fn offset_of(&self, old: u64) -> u64 {
        match self.moves.iter().find(|one| one.from.contains(&old)) {
            Some(one) => one.to + (old - one.from.start),
            None => old.wrapping_sub(self.skip).wrapping_add(self.prefix),
        }
    }

    /// The end of the old file's contents.
    pub fn content_end(&self) -> u64 {
        self.prefix + (self.contents.end - self.skip)
    }

    /// Inserts a segment after the last that is loaded.
    pub fn push_load(&mut self, load: Segment) {
        let last = self.segments.iter().rposition(Segment::is_loaded);
        self.segments.insert(last.map_or(0, |last| last + 1), load);
    }

    /// Adds a segment after the contents: the table after `before` other bytes, which start at an offset that is
    /// `residue` modulo `align`. If there are others, [`LEAD`] zeros come first.
    pub fn push_table_segment(
        &mut self,
        source: &Source<'_>,
        table_len: u64,
        before: u64,
        (residue, align): (u64, u64),
    ) -> Result<Segment, EmbedError> {
        let lead = if before == 0 { 0 } else { LEAD };
        let end = self.content_end() + lead;
        let start = end + residue.wrapping_sub(end) % align - lead;
        let free = source.free_address()?;
        let refused = EmbedError::Address { value: free, size: table_len };
        let offset = (start + lead + before).next_multiple_of(8);
        let size = table_len.checked_add(offset - start).ok_or(refused)?;
        let address = free.checked_add(start % source.page()).ok_or(refused)?;
        address.checked_add(size).ok_or(refused)?;
        let table_address = address + (offset - start);
        let load = Segment::new(elf::PT_LOAD.0, start, address, size, source.page());
        self.push_load(load);
        self.place_table(source, None, offset, table_address, table_len);
        Ok(load)
    }

    /// Gives the table its place: its section, which is the file's `old` or a new one, and its program header.
    pub fn place_table(
        &mut self,
        source: &Source<'_>,
        old: Option<usize>,
        offset: u64,
        address: u64,
        len: u64,
    ) {
        let (kind, flags) = (elf::SHT_GNU_SFRAME.0, elf::SHF_ALLOC.0);
        let header = Header { kind, flags, address, offset, size: len, align: 8, ..Header::default() };
        let section = match old {
            Some(index) => {
                self.sections[index] = Header { name: self.sections[index].name, ..header };
                index
            }
            None => {
                let name = self.name_table(source);
                self.sections.push(Header { name, ..header });
                self.sections.len() - 1
            }
        };
        let segment = Segment::new(elf::PT_GNU_SFRAME.0, offset, address, len, 8);
        match self.segments.iter_mut().find(|segment| segment.kind == elf::PT_GNU_SFRAME.0) {
            Some(old) => *old = segment,
            None => self.segments.push(segment),
        }
        self.resize_phdr();
        self.table = Some(Table { section, offset, room: len });
        if offset >= self.content_end() {
            self.rebuild_tail(source);
        }
    }

    /// Gives `PT_PHDR` the size of all program headers, and as much more as it had: lld counts one that it drops at last.
    pub fn resize_phdr(&mut self) {
        let size = (self.segments.len().to_u64() * Segment::LEN).wrapping_add(self.phdr_surplus);
        let phdr = self.segments.iter_mut().find(|segment| segment.kind == elf::PT_PHDR.0);
        phdr.into_iter().for_each(|segment| segment.resize(size));
    }

    /// The table's name in the names of sections, which get it if they do not have it.
    fn name_table(&mut self, source: &Source<'_>) -> u32 {
        self.rebuild_tail(source);
        if source.names == 0 {
            return 0;
        }
        let old = source.name_range();
        let bytes = source.bytes(old.clone());
        if let Some(known) = bytes.windows(NAME.len()).position(|window| window == NAME) {
            return known as u32;
        }
        let len = bytes.len() as u32;
        self.tail = Tail::Rebuild(Some(Names { old, append: NAME }));
        len
    }

    /// Writes the section headers again, and names of sections that lie in the tail, unless that is planned.
    pub fn rebuild_tail(&mut self, source: &Source<'_>) {
        if self.tail == Tail::Keep {
            let names = Names { old: source.name_range(), append: &[] };
            self.tail = Tail::Rebuild(self.contents.names_in_tail.then_some(names));
        }
    }

    /// Refuses files that become too long, and changes that overlap because what they change does.
    pub fn check(self, source: &Source<'_>) -> Result<Self, EmbedError> {
        let len = self.table.map_or(0, |table| table.room);
        let total = [source.len(), self.prefix, EHSIZE].into_iter().try_fold(len, u64::checked_add);
        if total.is_none_or(|total| total > isize::MAX as u64 / 2) {
            return Err(EmbedError::Address { value: source.len(), size: len });
        }
        let ph_end = source.phoff + self.segments.len().to_u64() * Segment::LEN;
        let contents = self.contents.end;
        if !(self.skip..=source.len()).contains(&contents) || self.content_end() < ph_end {
            return Err(EmbedError::Overlap { offset: contents, size: 0 });
        }
        let mut changes = vec![0..EHSIZE, source.phoff..ph_end];
        changes.extend(self.table.map(|table| table.offset..table.offset + table.room));
        let mut end = self.content_end();
        if let Tail::At(shoff, _) = self.tail {
            changes.push(shoff..shoff + self.sections.len().to_u64() * Header::LEN);
        }
        if self.tail == Tail::Keep {
            let shoff = source.shoff - self.skip + self.prefix;
            changes.push(shoff..shoff + self.sections.len().to_u64() * Header::LEN);
            end = source.len();
        }
        for edit in &self.edits {
            let (start, len) = (self.offset_of(edit.offset), edit.bytes.len().to_u64());
            let moved_end = self.moves.iter().map(|one| one.to + (one.from.end - one.from.start)).max();
            if start.checked_add(len).is_none_or(|last| last > end.max(moved_end.unwrap_or(0))) {
                return Err(EmbedError::Overlap { offset: edit.offset, size: len });
            }
            changes.push(start..start + len);
        }
        changes.retain(|range| !range.is_empty());
        changes.sort_by_key(|range| range.start);
        match changes.windows(2).find(|pair| pair[1].start < pair[0].end) {
            Some(pair) => {
                let size = pair[0].end - pair[1].start;
                Err(EmbedError::Overlap { offset: pair[1].start, size })
            }
            None => Ok(self),
        }
    }
}
