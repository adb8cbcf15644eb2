//! A plan of the changes to a linked file: its new headers, and the bytes that move or change. `write` turns it into
//! the file.

use core::ops::Range;

use cfipack_container::Error;
use cfipack_format::widen::ToU64;
use object::elf;

use super::header::{Header, Segment};
use super::source::{EHSIZE, Source};
use crate::embed_error::EmbedError;

/// The name of the section, with its terminator.
pub(super) const NAME: &[u8] = b".sframe\0";

/// The number of zeros before moved sections in their segment. If several segments start at the same byte, `llvm-strip`
/// 14 takes the first segment as the parent of the others. The first may be `PT_INTERP`, and then the alignment of the
/// loaded segment is lost.
pub(super) const LEAD: u64 = 8;

/// A changed file: the old file with bytes inserted and removed at a few places ([`Splice`]). All other bytes keep their
/// order, with or without a header that describes them. Offsets are offsets in the new file unless a comment says
/// otherwise.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The places in ascending order.
    pub splices: Vec<Splice>,
    pub segments: Vec<Segment>,
    /// The size of the old `PT_PHDR` minus the size of the old program headers, modulo 2^64.
    pub phdr_surplus: u64,
    pub sections: Vec<Header>,
    /// The offset of the section headers.
    pub shoff: u64,
    /// The index of the section with the names of sections, or 0 if there is no such section.
    pub names: usize,
    /// Ranges of the old file that become zeros.
    pub cleared: Vec<Range<u64>>,
    pub moves: Vec<Move>,
    /// New values for references to moved bytes.
    pub edits: Vec<Edit>,
    pub table: Option<Table>,
}

/// A place where new bytes replace bytes of the old file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Splice {
    /// The offset in the old file.
    pub at: u64,
    /// The number of old bytes that are dropped.
    pub removed: u64,
    /// New bytes.
    pub bytes: Vec<u8>,
    /// The number of zeros after the new bytes.
    pub zeros: u64,
}

impl Splice {
    /// Inserts zeros.
    pub fn zeros(at: u64, zeros: u64) -> Self {
        Self { at, zeros, ..Self::default() }
    }

    /// Drops bytes of the old file.
    pub fn removed(range: Range<u64>) -> Self {
        Self { at: range.start, removed: range.end - range.start, ..Self::default() }
    }

    fn added(&self) -> u64 {
        self.bytes.len().to_u64() + self.zeros
    }
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

impl Plan {
    /// Plans no change.
    pub fn unchanged(source: &Source<'_>) -> Self {
        Self {
            splices: Vec::new(),
            segments: source.segments.clone(),
            sections: source.sections.clone(),
            shoff: source.shoff,
            names: source.names,
            phdr_surplus: source
                .segment(elf::PT_PHDR)
                .map_or(0, |phdr| phdr.file_size.wrapping_sub(source.segments.len().to_u64() * Segment::LEN)),
            cleared: Vec::new(),
            moves: Vec::new(),
            edits: Vec::new(),
            table: None,
        }
    }

    /// Adds a splice. Offsets in the headers follow, unless they lead to bytes before it. An empty section or segment at
    /// the place of the splice stays there.
    pub fn splice(&mut self, splice: Splice) {
        let (start, end) = (self.shift(splice.at), self.shift(splice.at + splice.removed));
        let follow = |offset: &mut u64, is_empty: bool| {
            if *offset > end || *offset == end && !is_empty {
                *offset = (*offset - splice.removed).wrapping_add(splice.added());
            } else if *offset > start && is_empty {
                *offset = start;
            }
        };
        for segment in &mut self.segments {
            follow(&mut segment.offset, segment.file_size == 0);
        }
        // The first section header belongs to no section.
        for section in self.sections.iter_mut().skip(1) {
            let is_empty = !section.has_bytes();
            follow(&mut section.offset, is_empty);
        }
        follow(&mut self.shoff, false);
        let index = self.splices.partition_point(|other| other.at <= splice.at);
        self.splices.insert(index, splice);
    }

    /// Drops a range of the old file, if no segment loads it and the bytes after it stay aligned. Otherwise the range
    /// becomes zeros.
    pub fn remove(&mut self, source: &Source<'_>, range: Range<u64>) {
        let align = source.align_after(range.end);
        let end = range.start + (range.end - range.start).next_multiple_of(align);
        let is_whole = self.kept(range.clone()) == [range.clone()] && !source.is_loaded(&range);
        if is_whole && source.next_use(range.end, None) >= end && source.is_zero(range.end..end) {
            self.splice(Splice::removed(range.start..end.min(source.len())));
        } else {
            self.cleared.push(range);
        }
    }

    /// Inserts bytes before the old bytes at an offset, and zeros so that the old bytes stay aligned.
    fn insert(&mut self, source: &Source<'_>, at: u64, bytes: &[u8]) {
        let len = bytes.len().to_u64();
        let zeros = len.next_multiple_of(source.align_after(at)) - len;
        self.splice(Splice { at, removed: 0, bytes: bytes.to_vec(), zeros });
    }

    /// Returns the new offset of a byte of the old file.
    pub fn offset_of(&self, old: u64) -> u64 {
        match self.moves.iter().find(|one| one.from.contains(&old)) {
            Some(one) => one.to + (old - one.from.start),
            None => self.shift(old),
        }
    }

    /// Returns the new offset of a byte of the old file that does not move in memory. The byte at a splice is the first
    /// byte after it.
    pub fn shift(&self, old: u64) -> u64 {
        let splices = self.splices.iter().take_while(|splice| splice.at <= old);
        splices.fold(old, |new, splice| new + splice.added() - splice.removed.min(old - splice.at))
    }

    /// Returns the old offset of a byte of the new file. New bytes have the offset of the splice.
    pub fn old_of(&self, new: u64) -> u64 {
        self.splices.iter().fold(new, |old, splice| {
            if old >= splice.at + splice.added() {
                old - splice.added() + splice.removed
            } else {
                old.min(splice.at)
            }
        })
    }

    /// Returns the old offset of bytes of the new file, or `None` if not all of them are consecutive old bytes.
    pub fn source_of(&self, offset: u64, len: u64) -> Option<u64> {
        let old = self.old_of(offset);
        let range = old..old + len;
        (self.shift(old) == offset && self.kept(range.clone()) == [range]).then_some(old)
    }

    /// Returns the parts of a range of the old file that stay, divided at the splices.
    pub fn kept(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut start = range.start;
        for splice in &self.splices {
            let at = splice.at.clamp(start, range.end.max(start));
            parts.push(start..at);
            start = at.max((splice.at + splice.removed).min(range.end));
        }
        parts.push(start..range.end);
        parts.retain(|part| part.start < part.end);
        parts
    }

    /// Inserts a segment after the last loaded segment.
    pub fn push_load(&mut self, load: Segment) {
        let last = self.segments.iter().rposition(Segment::is_loaded);
        self.segments.insert(last.map_or(0, |last| last + 1), load);
    }

    /// Inserts a segment after all loaded bytes. Other sections follow it, because `dwz` refuses a file in which a loaded
    /// section comes after one that is not loaded. The segment has `before` bytes for moved sections, and then the table.
    /// The moved sections start at an offset that is `residue` modulo `align`, after [`LEAD`] zeros. If `before` is 0, the
    /// segment has no zeros either.
    pub fn push_table_segment(
        &mut self,
        source: &Source<'_>,
        table_len: u64,
        before: u64,
        (residue, align): (u64, u64),
    ) -> Result<Segment, EmbedError> {
        let lead = if before == 0 { 0 } else { LEAD };
        let at = source.place_of_table();
        let hole = self.shift(at);
        let end = hole + lead;
        let start = end + residue.wrapping_sub(end) % align - lead;
        let free = source.free_address()?;
        let refused = EmbedError::Address { value: free, size: table_len };
        let offset = (start + lead + before).next_multiple_of(8);
        let size = table_len.checked_add(offset - start).ok_or(refused)?;
        let address = free.checked_add(start % source.page()).ok_or(refused)?;
        address.checked_add(size).ok_or(refused)?;
        let table_address = address + (offset - start);
        let zeros = (start - hole + size).checked_next_multiple_of(source.align_after(at)).ok_or(refused)?;
        self.splice(Splice::zeros(at, zeros));
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
                self.push_section(source, Header { name, ..header })
            }
        };
        let segment = Segment::new(elf::PT_GNU_SFRAME.0, offset, address, len, 8);
        match self.segments.iter_mut().find(|segment| segment.kind == elf::PT_GNU_SFRAME.0) {
            Some(old) => *old = segment,
            None => self.segments.push(segment),
        }
        self.resize_phdr();
        self.table = Some(Table { section, offset, room: len });
    }

    /// Gives `PT_PHDR` the size of all program headers, plus the old surplus. lld counts a header in `PT_PHDR` that it
    /// does not write.
    pub fn resize_phdr(&mut self) {
        let size = (self.segments.len().to_u64() * Segment::LEN).wrapping_add(self.phdr_surplus);
        let phdr = self.segments.iter_mut().find(|segment| segment.kind == elf::PT_PHDR.0);
        phdr.into_iter().for_each(|segment| segment.resize(size));
    }

    /// Returns the offset of the name `.sframe` in the names of sections. If the name is missing, it is added after the
    /// others. Names among loaded bytes cannot grow, and are written again at the end of the file.
    fn name_table(&mut self, source: &Source<'_>) -> u32 {
        if source.names == 0 {
            return 0;
        }
        let old = source.name_range();
        let bytes = source.bytes(old.clone());
        if let Some(known) = bytes.windows(NAME.len()).position(|window| window == NAME) {
            return known as u32;
        }
        if source.may_grow(&old) {
            self.insert(source, old.end, NAME);
        } else {
            // Section headers that end the file grow there.
            let headers = source.headers_range();
            let is_last = headers.end == source.len() && source.may_grow(&headers);
            let at = if is_last { headers.start } else { source.len() };
            let offset = self.shift(at);
            self.insert(source, at, &[bytes, NAME].concat());
            self.sections[self.names].offset = offset;
        }
        self.sections[self.names].size += NAME.len().to_u64();
        bytes.len() as u32
    }

    /// Adds a section header after the others, and returns its index. Section headers among loaded bytes cannot grow, and
    /// are written again at the end of the file.
    fn push_section(&mut self, source: &Source<'_>, header: Header) -> usize {
        let old = source.headers_range();
        if source.may_grow(&old) {
            let zeros = Header::LEN.next_multiple_of(source.align_after(old.end));
            self.splice(Splice::zeros(old.end, zeros));
        } else {
            let end = self.shift(source.len());
            self.shoff = end.next_multiple_of(8);
            let zeros = self.shoff - end + (self.sections.len().to_u64() + 1) * Header::LEN;
            self.splices.push(Splice::zeros(source.len(), zeros));
        }
        self.sections.push(header);
        self.sections.len() - 1
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
        let total = [source.len(), source.page(), EHSIZE].into_iter().try_fold(len, u64::checked_add);
        if total.is_none_or(|total| total > isize::MAX as u64 / 2) {
            return Err(EmbedError::Address { value: source.len(), size: len });
        }
        let ph_end = source.phoff + self.segments.len().to_u64() * Segment::LEN;
        let end = self.shift(source.len());
        if end < ph_end {
            return Err(EmbedError::Overlap { offset: source.phoff, size: ph_end - source.phoff });
        }
        let mut changes = vec![0..EHSIZE, source.phoff..ph_end];
        changes.extend(self.table.map(|table| table.offset..table.offset + table.room));
        changes.push(self.shoff..self.shoff + self.sections.len().to_u64() * Header::LEN);
        for edit in &self.edits {
            let (start, len) = (self.offset_of(edit.offset), edit.bytes.len().to_u64());
            if start.checked_add(len).is_none_or(|last| last > end) {
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
