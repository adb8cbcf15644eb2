//! The original or the new file: its headers, and the bytes that it loads.

use core::ops::Range;

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf::{self, FileHeader64};
use object::read::elf::FileHeader as _;
use object::{Endian as _, Endianness};

use super::error::{StructureError, Version};
use super::loads::Loads;
use super::plain::{HEADER, Section, Segment};

/// The original or the new file.
pub(super) struct Image<'a> {
    pub(super) file: Version,
    pub(super) bytes: &'a [u8],
    pub(super) endian: Endianness,
    pub(super) machine: u16,
    pub(super) is_relocatable: bool,
    pub(super) is_executable: bool,
    pub(super) segments_at: u64,
    pub(super) sections_at: u64,
    pub(super) segments: Vec<Segment>,
    pub(super) sections: Vec<Section>,
    /// The index of the section with the names of sections, or 0.
    pub(super) names: usize,
    pub(super) loads: Loads,
}

impl<'a> Image<'a> {
    /// Reads the headers.
    pub(super) fn read(file: Version, bytes: &'a [u8]) -> Result<Self, StructureError> {
        let unreadable = |what, offset, value| StructureError::Unreadable { file, what, offset, value };
        let header = FileHeader64::<Endianness>::parse(bytes)
            .map_err(|_| unreadable("ELF header", 0, bytes.len().to_u64()))?;
        let endian = header.endian().map_err(|_| unreadable("byte order", 5, bytes[5].into()))?;
        let kind = header.e_type(endian);
        if ![elf::ET_REL, elf::ET_EXEC, elf::ET_DYN].contains(&kind) {
            return Err(unreadable("file type", 16, kind.0.into()));
        }
        let segments_at = header.e_phoff(endian);
        let bad_segments = unreadable("program headers", segments_at, header.e_phnum(endian).into());
        let segments = header.program_headers(endian, bytes).map_err(|_| bad_segments)?;
        let sections_at = header.e_shoff(endian);
        let bad_sections = unreadable("section headers", sections_at, header.e_shnum(endian).into());
        let sections = header.section_headers(endian, bytes).map_err(|_| bad_sections)?;
        let names = if sections.is_empty() {
            0
        } else {
            header.section_strings_index(endian, bytes).map_err(|_| bad_sections)?.0
        };
        let segments: Vec<_> = segments.iter().map(|segment| Segment::read(segment, endian)).collect();
        let sections: Vec<_> = sections.iter().map(|section| Section::read(section, endian)).collect();
        let loads = Loads::read(file, bytes, &segments)?;
        let image = Self {
            file,
            bytes,
            endian,
            machine: header.e_machine(endian).0,
            is_relocatable: kind == elf::ET_REL,
            is_executable: kind == elf::ET_EXEC,
            segments_at,
            sections_at,
            segments,
            sections,
            names,
            loads,
        };
        for section in image.sections.iter().filter(|section| section.has_bytes()) {
            let value = section.size;
            if image.range(section.offset, value).is_none() {
                return Err(unreadable("section", section.offset, value));
            }
        }
        if image.names >= image.sections.len().max(1) {
            return Err(unreadable("section of names", HEADER, image.names.to_u64()));
        }
        Ok(image)
    }

    /// Returns a range of the file, if it lies in the file.
    pub(super) fn range(&self, offset: u64, size: u64) -> Option<Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        (end <= self.bytes.len()).then_some(start..end)
    }

    /// Returns the bytes of a section in the file. They are empty for a section without bytes.
    pub(super) fn contents(&self, index: usize) -> &'a [u8] {
        let section = self.sections[index];
        match self.range(section.offset, section.size) {
            Some(range) if section.has_bytes() => &self.bytes[range],
            _ => &[],
        }
    }

    /// Returns a section's name, together with all bytes after it in the section of names.
    fn name_onwards(&self, index: usize) -> &'a [u8] {
        let names = if self.names == 0 { &[] } else { self.contents(self.names) };
        names.get(self.sections[index].name.to_usize()..).unwrap_or_default()
    }

    /// Returns a section's name.
    pub(super) fn name(&self, index: usize) -> &'a [u8] {
        let name = self.name_onwards(index);
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        &name[..end]
    }

    /// Returns whether a section is a table, as its type or its name says.
    pub(super) fn is_table(&self, index: usize) -> bool {
        self.sections[index].kind == elf::SHT_GNU_SFRAME.0
            || index != 0 && self.name_onwards(index).starts_with(b".sframe\0")
    }

    /// Returns whether a section is a table, or has the relocations of a table.
    pub(super) fn belongs_to_table(&self, index: usize) -> bool {
        let section = self.sections[index];
        let target = section.info.to_usize();
        self.is_table(index)
            || section.has_relocations()
                && target < self.sections.len()
                && target != 0
                && self.is_table(target)
    }

    /// Reads a number of 2 bytes at an offset in `bytes`, or 0 beyond their end.
    pub(super) fn u16(&self, bytes: &[u8], offset: usize) -> u16 {
        let field = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
        field.map_or(0, |field| self.endian.read_u16(*field))
    }

    /// Reads a number of 4 bytes, or 0 beyond the end.
    pub(super) fn u32(&self, bytes: &[u8], offset: usize) -> u32 {
        let field = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
        field.map_or(0, |field| self.endian.read_u32(*field))
    }

    /// Reads a number of 8 bytes, or 0 beyond the end.
    pub(super) fn u64(&self, bytes: &[u8], offset: usize) -> u64 {
        let field = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
        field.map_or(0, |field| self.endian.read_u64(*field))
    }
}
