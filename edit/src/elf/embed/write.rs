//! Writes the new file from a plan and a table.

use core::ops::Range;

use cfipack_container::raw::elf::Headers;
use cfipack_format::widen::{ToU64, ToUsize};
use object::elf::{self, SymbolSection};
use object::pod::bytes_of;

use super::header::{Header, Segment};
use super::plan::Plan;
use super::source::Source;
use crate::rewrite::{Patch, Rewrite};

/// With this number of program headers, the first section header has the real number.
const PN_XNUM: u64 = elf::PN_XNUM as u64;

/// Returns the new file, with the table if the plan has a place for it.
pub(super) fn write<'a>(source: &Source<'a>, mut plan: Plan, table: Option<Vec<u8>>) -> Rewrite<'a> {
    if let (Some(place), Some(bytes)) = (plan.table, &table) {
        let len = bytes.len().to_u64();
        assert!(len <= place.room, "a table of {len} bytes where {} were planned", place.room);
        plan.sections[place.section].size = len;
        let sframe = plan.segments.iter_mut().find(|segment| segment.kind == elf::PT_GNU_SFRAME.0);
        sframe.into_iter().for_each(|segment| segment.resize(len));
    }
    let mut writer = Writer { source, plan, rewrite: Rewrite::new(), patches: Vec::new() };
    writer.contents(table);
    writer.section_headers();
    writer.elf_header();
    writer.program_headers();
    writer.edits();
    let Writer { rewrite, patches, .. } = writer;
    rewrite.patch(patches)
}

struct Writer<'s, 'a> {
    source: &'s Source<'a>,
    plan: Plan,
    rewrite: Rewrite<'a>,
    patches: Vec<Patch>,
}

impl<'a> Writer<'_, 'a> {
    /// Writes the old bytes that stay, the bytes that move, and the table.
    fn contents(&mut self, table: Option<Vec<u8>>) {
        let mut start = 0;
        for splice in &self.plan.splices {
            self.rewrite.old(start..splice.at.to_usize());
            self.rewrite.bytes("name of section .sframe", splice.bytes.clone());
            self.rewrite.zeros("padding", splice.zeros.to_usize());
            start = (splice.at + splice.removed).to_usize();
        }
        self.rewrite.old(start..self.source.len().to_usize());
        let patches = [self.cleared(), self.moved(), self.table(table)];
        for patches in patches {
            self.rewrite = core::mem::take(&mut self.rewrite).patch(patches);
        }
    }

    /// Returns zeros for the cleared ranges of the old file that are not zero.
    fn cleared(&self) -> Vec<Patch> {
        let mut ranges = self.plan.cleared.clone();
        ranges.sort_by_key(|range| range.start);
        let (mut patches, mut next) = (Vec::new(), 0);
        for range in ranges {
            let end = range.end.min(self.source.len());
            let parts = self.plan.kept(range.start.max(next)..end).into_iter();
            patches.extend(parts.filter(|part| !self.source.is_zero(part.clone())).map(|part| {
                let (offset, len) = (self.plan.shift(part.start).to_usize(), part.end - part.start);
                Patch { offset, what: "place of moved bytes".into(), bytes: vec![0; len.to_usize()] }
            }));
            next = next.max(end);
        }
        patches
    }

    fn moved(&self) -> Vec<Patch> {
        let moves = self.plan.moves.iter().map(|one| Patch {
            offset: one.to.to_usize(),
            what: "moved sections".into(),
            bytes: self.source.bytes(one.from.clone()).to_vec(),
        });
        moves.collect()
    }

    fn table(&self, table: Option<Vec<u8>>) -> Vec<Patch> {
        let (Some(place), Some(mut bytes)) = (self.plan.table, table) else { return Vec::new() };
        bytes.resize(place.room.to_usize(), 0);
        vec![Patch { offset: place.offset.to_usize(), what: "section .sframe".into(), bytes }]
    }

    /// Writes the section headers that differ from the bytes in their place.
    fn section_headers(&mut self) {
        self.count_in_first_section();
        for (index, header) in self.plan.sections.clone().into_iter().enumerate() {
            let offset = self.plan.shoff + index.to_u64() * Header::LEN;
            self.replace(offset, self.section_title(index), header.to_bytes(self.source.endian));
        }
    }

    /// Puts numbers that are too large for the ELF header into the first section header.
    fn count_in_first_section(&mut self) {
        let (segments, sections) = (self.plan.segments.len().to_u64(), self.plan.sections.len().to_u64());
        let names = self.plan.names.to_u64();
        let reserved = u64::from(elf::SHN_LORESERVE);
        let Some(first) = self.plan.sections.first_mut() else { return };
        // A number that the old file had there, and that now fits into the ELF header, is cleared.
        let Headers { file, endian, .. } = self.source.headers;
        if segments >= PN_XNUM || file.e_phnum.get(endian) == elf::PN_XNUM {
            first.info = if segments >= PN_XNUM { segments as u32 } else { 0 };
        }
        if sections >= reserved || file.e_shnum.get(endian) == 0 {
            first.size = if sections >= reserved { sections } else { 0 };
        }
        if names >= reserved || file.e_shstrndx.get(endian) == elf::SHN_XINDEX {
            first.link = if names >= reserved { names as u32 } else { 0 };
        }
    }

    fn section_title(&self, index: usize) -> String {
        match self.plan.table {
            Some(table) if table.section == index => format!("section header {index}: .sframe"),
            _ => format!("section header {index}: {}", self.source.headers.name_for_error(index)),
        }
    }

    fn elf_header(&mut self) {
        let endian = self.source.headers.endian;
        let reserved = u64::from(elf::SHN_LORESERVE);
        let sections = self.plan.sections.len().to_u64();
        let (segments, names) = (self.plan.segments.len().to_u64(), self.plan.names.to_u64());
        let names = SymbolSection(number_or(names, reserved, elf::SHN_XINDEX.0));
        let mut header = *self.source.headers.file;
        header.e_shoff.set(endian, self.plan.shoff);
        header.e_phnum.set(endian, number_or(segments, PN_XNUM, elf::PN_XNUM));
        header.e_shnum.set(endian, number_or(sections, reserved, 0));
        header.e_shstrndx.set(endian, names);
        self.replace(0, "ELF header".into(), bytes_of(&header).to_vec());
    }

    fn program_headers(&mut self) {
        for (index, segment) in self.plan.segments.clone().into_iter().enumerate() {
            let offset = self.source.phoff + index.to_u64() * Segment::LEN;
            let what = format!("program header {index}: {}", segment.name());
            self.replace(offset, what, segment.to_bytes(self.source.endian));
        }
    }

    fn edits(&mut self) {
        for edit in core::mem::take(&mut self.plan.edits) {
            let offset = self.plan.offset_of(edit.offset);
            self.patches.push(Patch { offset: offset.to_usize(), what: edit.what.into(), bytes: edit.bytes });
        }
    }

    /// Writes bytes of the headers, unless the same bytes of the old file are in their place.
    fn replace(&mut self, offset: u64, what: String, bytes: Vec<u8>) {
        let len = bytes.len().to_u64();
        let old = self.plan.source_of(offset, len);
        // More program headers may have been written over section headers.
        let is_same = old.is_some_and(|old| {
            !self.is_cleared(old..old + len) && self.source.bytes(old..old + len) == bytes
        });
        if !is_same {
            self.patches.push(Patch { offset: offset.to_usize(), what: what.into(), bytes });
        }
    }

    fn is_cleared(&self, old: Range<u64>) -> bool {
        self.plan.cleared.iter().any(|range| range.start < old.end && old.start < range.end)
    }
}

/// Returns a number that is below a limit, and `other` instead of a greater number.
fn number_or(number: u64, limit: u64, other: u16) -> u16 {
    if number < limit { number as u16 } else { other }
}
