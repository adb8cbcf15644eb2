//! A plan of the changes to a linked file: its new headers, and the bytes that move or change. `write` turns it into
//! the file.

use core::ops::Range;

use cfipack_container::Error;
use cfipack_format::widen::ToU64;
use object::elf;

use super::header::{Header, Segment};
use super::source::{Contents, EHSIZE, Source};
use crate::embed_error::EmbedError;

/// The name of the section, with its terminator.
pub(super) const NAME: &[u8] = b".sframe\0";

/// The number of zeros before moved sections in their segment. If several segments start at the same byte, `llvm-strip`
/// 14 takes the first segment as the parent of the others. The first may be `PT_INTERP`, and then the alignment of the
/// loaded segment is lost.
pub(super) const LEAD: u64 = 8;

/// A changed file. Offsets are offsets in the new file unless a comment says otherwise.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The number of bytes that are dropped at the start of the old file.
    pub skip: u64,
    /// The number of new bytes before the first old byte that stays.
    pub prefix: u64,
    /// The part of the old file that stays before a rebuilt tail, as offsets in the old file.
    pub contents: Contents,
    pub segments: Vec<Segment>,
    /// The size of the old `PT_PHDR` minus the size of the old program headers, modulo 2^64.
    pub phdr_surplus: u64,
    pub sections: Vec<Header>,
    /// The index of the section with the names of sections, or 0 if there is no such section.
    pub names: usize,
    /// Ranges of the old file that become zeros.
    pub cleared: Vec<Range<u64>>,
    pub moves: Vec<Move>,
    /// New values for references to moved bytes.
    pub edits: Vec<Edit>,
    pub table: Option<Table>,
    pub tail: Tail,
}

/// Bytes that move within the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Move {
    /// The range of the bytes in the old file.
    pub from: Range<u64>,
    /// The offset of the bytes in the new file.
    pub to: u64,
    /// The distance by which they move in memory, modulo 2^64.
    pub delta: u64,
}

/// A range of addresses that moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Moved {
    /// The old addresses.
    pub addresses: Range<u64>,
    /// The distance by which they move, modulo 2^64.
    pub delta: u64,
}

/// New bytes that replace the same number of old bytes.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    /// The offset in the old file.
    pub offset: u64,
    pub what: String,
    pub bytes: Vec<u8>,
}

/// The place of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// The index of the section.
    pub section: usize,
    pub offset: u64,
    /// The greatest size of the table in bytes.
    pub room: u64,
}

/// The tail of the file after its contents: the names of sections, and the section headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// The tail stays in its place. Section headers may get other values.
    Keep,
    /// The section headers are written again after the contents, and so are the names if they are given.
    Rebuild(Option<Names>),
    /// The contents have the section headers at this offset, apart from headers that were overwritten. The names are
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
    /// Returns the size in bytes.
    pub fn len(&self) -> u64 {
        self.old.end - self.old.start + self.append.len().to_u64()
    }
}

impl Plan {
    /// Plans no change.
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

    /// Plans a file that starts with `prefix` new bytes instead of the first `skip` old bytes. Offsets in the headers
    /// follow, unless they lead to the skipped bytes.
    pub fn shifted(source: &Source<'_>, skip: u64, prefix: u64) -> Self {
        let mut plan = Self { skip, prefix, ..Self::unchanged(source) };
        let shift = |offset: &mut u64| {
            if *offset >= skip {
                *offset = (*offset - skip).wrapping_add(prefix);
            }
        };
        // An empty segment at offset 0, such as `PT_GNU_STACK`, has no place in the file. Other empty segments, such as
        // a `PT_TLS` without initial values, have the offset of their section.
        let segments = plan.segments.iter_mut();
        segments.filter(|one| one.file_size != 0 || one.offset != 0).for_each(|one| shift(&mut one.offset));
        // The first section header belongs to no section.
        let sections = plan.sections.iter_mut().skip(1);
        sections.filter(|one| one.offset != 0).for_each(|one| shift(&mut one.offset));
        plan
    }

    /// Returns the new offset of a byte of the old file.
    pub fn offset_of(&self, old: u64) -> u64 {
        match self.moves.iter().find(|one| one.from.contains(&old)) {
            Some(one) => one.to + (old - one.from.start),
            None => old.wrapping_sub(self.skip).wrapping_add(self.prefix),
        }
    }

    /// Returns the new offset of the end of the old contents.
    pub fn content_end(&self) -> u64 {
        self.prefix + (self.contents.end - self.skip)
    }

    /// Inserts a segment after the last loaded segment.
    pub fn push_load(&mut self, load: Segment) {
        let last = self.segments.iter().rposition(Segment::is_loaded);
        self.segments.insert(last.map_or(0, |last| last + 1), load);
    }

    /// Adds a segment after the contents. It has `before` bytes for moved sections, and then the table. The moved
    /// sections start at an offset that is `residue` modulo `align`, after [`LEAD`] zeros. If `before` is 0, the
    /// segment has no zeros either.
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

    /// Gives the table its section and its program header. The section is the file's section `old`, or a new section.
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

    /// Gives `PT_PHDR` the size of all program headers, plus the old surplus. lld counts a header in `PT_PHDR` that it
    /// does not write.
    pub fn resize_phdr(&mut self) {
        let size = (self.segments.len().to_u64() * Segment::LEN).wrapping_add(self.phdr_surplus);
        let phdr = self.segments.iter_mut().find(|segment| segment.kind == elf::PT_PHDR.0);
        phdr.into_iter().for_each(|segment| segment.resize(size));
    }

    /// Returns the offset of the name `.sframe` in the names of sections. The name is appended if it is missing.
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

    /// Plans to write the section headers again, and the names of sections if they lie in the tail. Does nothing if
    /// this is planned already.
    pub fn rebuild_tail(&mut self, source: &Source<'_>) {
        if self.tail == Tail::Keep {
            let names = Names { old: source.name_range(), append: &[] };
            self.tail = Tail::Rebuild(self.contents.names_in_tail.then_some(names));
        }
    }

    /// Refuses a file that becomes too long, a plan that changes the same bytes twice, and a number without a section
    /// that would lead to the new table.
    pub fn check(self, source: &Source<'_>) -> Result<Self, EmbedError> {
        let value = source.sections.len();
        let is_new = self.sections.len() > value;
        if let Some(index) = self.sections.iter().position(|section| section.sections().contains(&value))
            && is_new
        {
            let offset = source.shoff + index.to_u64() * Header::LEN;
            let (what, value) = ("number of a section in a section", value.to_u64());
            return Err(EmbedError::File(Error::Table { what, offset, value }));
        }
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
