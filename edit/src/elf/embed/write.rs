//! Writes the new file from a plan and a table.

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::header::{Header, Segment};
use super::plan::{Names, Plan, Tail};
use super::source::{EHSIZE, Source};
use crate::rewrite::{Patch, Rewrite};

/// Offsets of fields of the ELF header.
const E_SHOFF: usize = 0x28;
const E_PHNUM: usize = 0x38;
const E_SHNUM: usize = 0x3c;
const E_SHSTRNDX: usize = 0x3e;
/// With this number of program headers, the first section header has the real number (`PN_XNUM`).
const PN_XNUM: u64 = 0xffff;

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
    let shoff = writer.tail();
    writer.elf_header(shoff);
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
        let end = match self.plan.tail {
            Tail::Keep => self.source.len(),
            Tail::Rebuild(_) | Tail::At(..) => self.plan.contents.end,
        };
        self.rewrite.zeros("page of program headers", self.plan.prefix.to_usize());
        self.rewrite.old(self.plan.skip.to_usize()..end.to_usize());
        let end = self.rewrite.len().to_u64();
        let cleared = self.cleared();
        self.rewrite = core::mem::take(&mut self.rewrite).patch(cleared);

        let mut moves = self.plan.moves.clone();
        moves.sort_by_key(|one| one.to);
        let mut within = Vec::new();
        for one in moves {
            let from = one.from.start.to_usize()..one.from.end.to_usize();
            if one.to < end {
                let bytes = self.source.bytes(one.from).to_vec();
                within.push(Patch { offset: one.to.to_usize(), what: "moved sections".into(), bytes });
            } else {
                self.pad_to(one.to);
                self.rewrite.old(from);
            }
        }
        self.rewrite = core::mem::take(&mut self.rewrite).patch(within);
        if let (Some(place), Some(mut bytes)) = (self.plan.table, table) {
            bytes.resize(place.room.to_usize(), 0);
            if place.offset < end {
                self.rewrite = core::mem::take(&mut self.rewrite).patch(vec![Patch {
                    offset: place.offset as usize,
                    what: "section .sframe".into(),
                    bytes,
                }]);
            } else {
                self.pad_to(place.offset);
                self.rewrite.bytes("section .sframe", bytes);
            }
        }
    }

    /// Returns zeros for the cleared ranges of the old file that are not zero.
    fn cleared(&self) -> Vec<Patch> {
        let end = match self.plan.tail {
            Tail::Keep => self.source.len(),
            Tail::Rebuild(_) | Tail::At(..) => self.plan.contents.end,
        };
        let mut ranges = self.plan.cleared.clone();
        ranges.sort_by_key(|range| range.start);
        let (mut patches, mut next) = (Vec::new(), self.plan.skip);
        for range in ranges {
            let (start, end) = (range.start.max(next), range.end.min(end));
            if start < end && !self.source.is_zero(start..end, None) {
                let offset = (start - self.plan.skip + self.plan.prefix).to_usize();
                let bytes = vec![0; (end - start) as usize];
                patches.push(Patch { offset, what: "place of moved bytes".into(), bytes });
            }
            next = next.max(end);
        }
        patches
    }

    fn pad_to(&mut self, offset: u64) {
        let len = offset.to_usize().saturating_sub(self.rewrite.len());
        self.rewrite.zeros("padding", len);
    }

    /// Writes the names of sections and the section headers. Returns the offset of the section headers.
    fn tail(&mut self) -> u64 {
        self.count_in_first_section();
        self.keep_empty_sections_inside();
        if let Tail::At(shoff, names) = self.plan.tail.clone() {
            self.names(names.as_ref());
            // wild writes the section headers before the names, and pads the end of the names.
            if self.plan.sections[self.plan.names].range().end == self.rewrite.len().to_u64() {
                self.rewrite.align(8);
            }
            self.overwritten_headers(shoff);
            return shoff;
        }
        let Tail::Rebuild(names) = self.plan.tail.clone() else {
            let shoff = self.source.shoff - self.plan.skip + self.plan.prefix;
            for (index, header) in self.plan.sections.clone().into_iter().enumerate() {
                if self.source.sections.get(index) != Some(&header) {
                    let offset = shoff + index.to_u64() * Header::LEN;
                    let bytes = header.to_bytes(self.source.endian);
                    self.patches.push(Patch {
                        offset: offset.to_usize(),
                        what: self.section_title(index).into(),
                        bytes,
                    });
                }
            }
            return shoff;
        };
        // The names and the headers keep their order.
        let is_names_first = self.source.name_range().start < self.source.shoff;
        if is_names_first {
            self.names(names.as_ref());
        }
        self.rewrite.align(8);
        let shoff = self.rewrite.len().to_u64();
        if let Some(names) = names.as_ref().filter(|_| !is_names_first) {
            let (headers, index) = (self.plan.sections.len().to_u64() * Header::LEN, self.plan.names);
            self.plan.sections[index].offset = shoff + headers;
            self.plan.sections[index].size = names.len();
        }
        self.section_headers();
        if !is_names_first {
            self.names(names.as_ref());
        }
        shoff
    }

    /// Writes section headers again that program headers were written over.
    fn overwritten_headers(&mut self, shoff: u64) {
        for (index, header) in self.plan.sections.clone().into_iter().enumerate() {
            let (offset, bytes) = (shoff + index.to_u64() * Header::LEN, header.to_bytes(self.source.endian));
            let old = offset + self.plan.skip - self.plan.prefix;
            if old < self.source.ph_end() || self.source.bytes(old..old + Header::LEN) != bytes {
                let what = self.section_title(index).into();
                self.patches.push(Patch { offset: offset.to_usize(), what, bytes });
            }
        }
    }

    /// Writes the names of sections, if they are given.
    fn names(&mut self, names: Option<&Names>) {
        let Some(Names { old, append }) = names else { return };
        let header = &mut self.plan.sections[self.plan.names];
        header.offset = self.rewrite.len().to_u64();
        header.size = old.end - old.start + append.len().to_u64();
        self.rewrite.old(old.start.to_usize()..old.end.to_usize());
        self.rewrite.bytes("name of section .sframe", *append);
    }

    /// Gives empty sections an offset in the new file, if they have one in the old file. `llvm-strip` leaves offsets in
    /// bytes that are removed with the table.
    fn keep_empty_sections_inside(&mut self) {
        let (old_end, end) = (self.source.len(), self.rewrite.len().to_u64());
        for section in &mut self.plan.sections {
            let is_empty = section.has_place() && section.size == 0;
            if is_empty && (end..=old_end).contains(&section.offset) {
                section.offset = end;
            }
        }
    }

    fn section_headers(&mut self) {
        for (index, header) in self.plan.sections.clone().into_iter().enumerate() {
            let start = self.source.shoff.to_usize() + index * Header::LEN.to_usize();
            match self.source.sections.get(index) {
                Some(old) if *old == header => self.rewrite.old(start..start + Header::LEN.to_usize()),
                _ => {
                    let bytes = header.to_bytes(self.source.endian);
                    self.rewrite.bytes(self.section_title(index), bytes);
                }
            }
        }
    }

    /// Puts numbers that are too large for the ELF header into the first section header.
    fn count_in_first_section(&mut self) {
        let (segments, sections) = (self.plan.segments.len().to_u64(), self.plan.sections.len().to_u64());
        let names = self.plan.names.to_u64();
        let reserved = u64::from(elf::SHN_LORESERVE);
        let Some(first) = self.plan.sections.first_mut() else { return };
        // A number that the old file had there, and that now fits into the ELF header, is cleared.
        let header = self.source.bytes(0..EHSIZE);
        let was = |field: usize, value: u16| header[field..field + 2] == self.source.endian.put_u16(value);
        if segments >= PN_XNUM || was(E_PHNUM, PN_XNUM as u16) {
            first.info = if segments >= PN_XNUM { segments as u32 } else { 0 };
        }
        if sections >= reserved || was(E_SHNUM, 0) {
            first.size = if sections >= reserved { sections } else { 0 };
        }
        if names >= reserved || was(E_SHSTRNDX, elf::SHN_XINDEX.0) {
            first.link = if names >= reserved { names as u32 } else { 0 };
        }
    }

    fn section_title(&self, index: usize) -> String {
        match self.plan.table {
            Some(table) if table.section == index => format!("section header {index}: .sframe"),
            _ => format!("section header {index}: {}", self.source.headers.name_for_error(index)),
        }
    }

    fn elf_header(&mut self, shoff: u64) {
        let endian = self.source.endian;
        let reserved = u64::from(elf::SHN_LORESERVE);
        let sections = self.plan.sections.len().to_u64();
        let (segments, names) = (self.plan.segments.len().to_u64(), self.plan.names.to_u64());
        let mut header = self.source.bytes(0..EHSIZE).to_vec();
        let mut put =
            |offset: usize, bytes: &[u8]| header[offset..offset + bytes.len()].copy_from_slice(bytes);
        put(E_SHOFF, &endian.put_u64(shoff));
        put(E_PHNUM, &endian.put_u16(number_or(segments, PN_XNUM, PN_XNUM as u16)));
        put(E_SHNUM, &endian.put_u16(number_or(sections, reserved, 0)));
        put(E_SHSTRNDX, &endian.put_u16(number_or(names, reserved, elf::SHN_XINDEX.0)));
        self.replace(0, "ELF header".into(), header);
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

    /// Replaces bytes of the headers, unless they are the same already.
    fn replace(&mut self, offset: u64, what: String, bytes: Vec<u8>) {
        let is_same = self.plan.prefix == 0
            && self.plan.skip == 0
            && self.source.bytes(offset..offset + bytes.len().to_u64()) == bytes;
        if !is_same {
            self.patches.push(Patch { offset: offset.to_usize(), what: what.into(), bytes });
        }
    }
}

/// Returns a number that is below a limit, and `other` instead of a greater number.
fn number_or(number: u64, limit: u64, other: u16) -> u16 {
    if number < limit { number as u16 } else { other }
}
