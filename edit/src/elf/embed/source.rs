//! The file before a change: its headers as values, with the checks that a change relies on.

use core::ops::Range;

use cfipack_container::Error;
use cfipack_container::raw::elf::Headers;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Endian, Family};
use object::elf;
use object::read::elf::FileHeader as _;

use super::header::{Header, Segment};
use crate::embed_error::EmbedError;

/// The smallest page size that addresses and offsets agree on.
pub(super) const PAGE: u64 = 0x1000;
/// The largest page size of a supported architecture, which is AArch64's.
const LARGE_PAGE: u64 = 0x1_0000;
/// The size of an ELF header.
pub(super) const EHSIZE: u64 = 64;

/// A linked file.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    pub headers: Headers<'a>,
    pub endian: Endian,
    /// True if the addresses of the file are fixed.
    pub is_fixed: bool,
    /// The offsets of the program headers and the section headers.
    pub phoff: u64,
    pub shoff: u64,
    /// The index of the section with the names of sections, or 0 if there is no such section.
    pub names: usize,
    pub segments: Vec<Segment>,
    pub sections: Vec<Header>,
    /// The place of the interpreter's name.
    pub interp: Option<Range<u64>>,
    pub dynamic: Option<Segment>,
    /// The sections with the names of dynamic symbols, in ascending order.
    pub dynamic_names: Vec<u32>,
}

impl<'a> Source<'a> {
    /// Reads the headers. Refuses files that no change can leave intact.
    pub fn read(headers: &Headers<'a>) -> Result<Self, EmbedError> {
        let source = Self::of(headers)?;
        source.check()?;
        Ok(source)
    }

    /// Reads the headers as they are.
    pub fn of(headers: &Headers<'a>) -> Result<Self, EmbedError> {
        let Ok(header) = elf::FileHeader64::<object::Endianness>::parse(headers.bytes) else {
            return Err(EmbedError::NoSegments);
        };
        let endian = headers.endian;
        let mut source = Self {
            headers: headers.clone(),
            endian: headers.arch.endian(),
            is_fixed: header.e_type(endian) == elf::ET_EXEC,
            phoff: header.e_phoff(endian),
            shoff: header.e_shoff(endian),
            names: header.shstrndx(endian, headers.bytes).map_or(0, |index| index.to_usize()),
            segments: headers.segments.iter().map(|segment| Segment::read(segment, endian)).collect(),
            sections: headers.sections.iter().map(|section| Header::read(section, endian)).collect(),
            interp: None,
            dynamic: None,
            dynamic_names: Vec::new(),
        };
        source.interp = source.segment(elf::PT_INTERP).map(Segment::range);
        source.dynamic = source.segment(elf::PT_DYNAMIC).copied();
        let symbols = source.sections.iter().filter(|section| section.is(elf::SHT_DYNSYM));
        source.dynamic_names = symbols.map(|section| section.link).collect();
        source.dynamic_names.sort_unstable();
        Ok(source)
    }

    /// Refuses files that no change can leave intact. A file of debug information is refused as such, because it may
    /// have the program headers of the program that it describes.
    pub fn check(&self) -> Result<(), EmbedError> {
        self.check_sections()?;
        self.check_segments()?;
        self.check_names()?;
        self.check_end()
    }

    /// Refuses segments that are damaged, unusual in a program, or not in ascending order.
    fn check_segments(&self) -> Result<(), EmbedError> {
        let mut end = None;
        for (index, segment) in self.segments.iter().enumerate() {
            let at = self.phoff + index.to_u64() * Segment::LEN;
            let damaged =
                |value| Err(EmbedError::File(Error::Table { what: "program header", offset: at, value }));
            if segment.used().end > self.len() {
                return damaged(segment.file_size);
            }
            if !segment.is_loaded() {
                continue;
            }
            if segment.address.checked_add(segment.memory_size).is_none()
                || segment.file_size > segment.memory_size
            {
                return damaged(segment.memory_size);
            }
            if segment.physical != 0 && segment.physical != segment.address {
                return Err(EmbedError::PhysicalAddress { offset: at, value: segment.physical });
            }
            if end.is_some_and(|end| segment.address < end) {
                return Err(EmbedError::SegmentOrder { offset: at, value: segment.address });
            }
            end = Some(segment.end_address());
        }
        end.map(|_| ()).ok_or(EmbedError::NoSegments)
    }

    /// Refuses sections that do not lie in the file, and a file of debug information.
    pub fn check_sections(&self) -> Result<(), EmbedError> {
        if self.sections.is_empty() {
            return Err(EmbedError::NoSectionHeaders);
        }
        for (index, section) in self.sections.iter().enumerate() {
            let (name, offset, size) = (self.headers.name_for_error(index), section.offset, section.size);
            if section.has_place() && section.range().end > self.len() {
                return Err(EmbedError::File(Error::SectionBounds { section: name, offset, size }));
            }
            let is_code = section.has(elf::SHF_ALLOC) && section.has(elf::SHF_EXECINSTR);
            if is_code && section.is(elf::SHT_NOBITS) && size != 0 {
                return Err(EmbedError::NoContents { section: name, offset, size });
            }
        }
        Ok(())
    }

    /// Refuses names of sections without an end, and names beyond the end. An appended name would change them.
    fn check_names(&self) -> Result<(), EmbedError> {
        let range = self.name_range();
        let has_end = self.bytes(range.clone()).last() == Some(&0);
        let len = range.end - range.start;
        let are_inside = self.sections.iter().all(|section| u64::from(section.name) < len);
        if self.names == 0 || has_end && are_inside {
            return Ok(());
        }
        let damaged = Error::Table { what: "names of sections", offset: range.start, value: len };
        Err(EmbedError::File(damaged))
    }

    /// Returns the end of the bytes of all segments, without the loaded segment `except` and those within it. Sections
    /// that start among these bytes count as a whole.
    pub fn loaded_end(&self, except: Option<&Segment>) -> u64 {
        let is_other = |one: &&Segment| except.is_none_or(|load| !load.range().contains(&one.offset));
        let segments = self.segments.iter().filter(is_other).map(|segment| segment.used().end);
        let end = segments.fold(EHSIZE.max(self.ph_end()), u64::max);
        let mut sections: Vec<_> = self.sections.iter().map(Header::range).collect();
        sections.sort_by_key(|range| range.start);
        let end = sections.iter().fold(end, |end, one| if one.start < end { end.max(one.end) } else { end });
        // An empty segment can lie between these bytes and what follows, and keeps its place.
        let next =
            sections.iter().filter(|one| one.start >= end && !one.is_empty()).map(|one| one.start).min();
        let last = next.unwrap_or(end).min(except.map_or(u64::MAX, |load| load.offset));
        let empty = self.loaded().filter(|one| one.file_size == 0 && (end..=last).contains(&one.offset));
        empty.fold(end, |end, one| end.max(one.offset))
    }

    /// Returns the offset where a new segment is inserted: the end of all loaded bytes. But `dwz` refuses a loaded section
    /// after one that is not loaded. If LIEF has added a segment without a loaded section at the end of the file, the new
    /// segment comes before the sections that are not loaded.
    pub fn place_of_table(&self) -> u64 {
        let end = self.loaded_end(None);
        let with_bytes = self.sections.iter().filter(|section| section.has_bytes());
        let (loaded, others): (Vec<&Header>, Vec<_>) = with_bytes.partition(|one| one.has(elf::SHF_ALLOC));
        // The names of sections may be written again elsewhere.
        let names = self.name_range();
        let start = others.iter().map(|section| section.offset).filter(|start| *start != names.start).min();
        let start = start.unwrap_or(end);
        let loaded_end = loaded.iter().map(|section| section.range().end).fold(self.ph_end(), u64::max);
        // Only loaded segments may lie behind this place: readers find other bytes by their offsets alone.
        let mut behind = self.segments.iter().filter(|segment| start < segment.used().end);
        let may_move = behind.all(|segment| segment.is_loaded() && start <= segment.offset);
        if loaded_end <= start && start < end && may_move { start } else { end }
    }

    /// Returns the end of all sections and other segments that start before a segment.
    pub fn end_before(&self, load: &Segment) -> u64 {
        let segments = self.segments.iter().map(Segment::used);
        let all = self.sections.iter().map(Header::range).chain(segments);
        let before = all.filter(|range| range.start < load.offset && !range.is_empty());
        before.map(|range| range.end).fold(EHSIZE.max(self.ph_end()), u64::max)
    }

    /// Returns the largest alignment of the sections and loaded segments from an offset on, and at least that of section
    /// headers.
    pub fn align_after(&self, offset: u64) -> u64 {
        let sections = self.sections.iter().filter(|one| one.has_bytes() && one.offset >= offset);
        let aligns = sections.map(|one| one.align).filter(|align| *align <= PAGE);
        let loads = self.loaded().filter(|load| load.file_size != 0 && load.offset >= offset);
        let aligns = aligns.chain(loads.map(|load| load.align));
        aligns.filter(|align| align.is_power_of_two()).fold(8, u64::max)
    }

    /// Returns whether a segment loads bytes of a range.
    pub fn is_loaded(&self, range: &Range<u64>) -> bool {
        self.loaded().any(|load| load.offset < range.end && range.start < load.range().end)
    }

    /// Returns whether bytes can be inserted after a range: no segment loads it, and it does not end within a section.
    pub fn may_grow(&self, range: &Range<u64>) -> bool {
        let mut sections = self.sections.iter().map(Header::range);
        range.start >= self.loaded_end(None)
            && !sections.any(|one| one.start < range.end && range.end < one.end)
    }

    /// Returns the range of the section headers.
    pub fn headers_range(&self) -> Range<u64> {
        self.shoff..self.shoff.saturating_add(self.sections.len().to_u64() * Header::LEN)
    }

    /// Refuses bytes after everything that headers describe.
    fn check_end(&self) -> Result<(), EmbedError> {
        /// The mark that the kernel's `sign-file` writes at the end of a file.
        const SIGNATURE: &[u8] = b"~Module signature appended~\n";
        let segments = self.segments.iter().map(|segment| segment.used().end);
        let sections = self.sections.iter().filter(|one| one.has_bytes()).map(|one| one.range().end);
        let headers = [EHSIZE, self.ph_end(), self.headers_range().end];
        let end = segments.chain(sections).chain(headers).fold(0, u64::max);
        let rest = &self.headers.bytes[end.min(self.len()).to_usize()..];
        if rest.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        if rest.ends_with(SIGNATURE) {
            return Err(EmbedError::Signature { offset: end });
        }
        Err(EmbedError::Overlay { offset: end, size: rest.len().to_u64() })
    }

    /// Refuses sections of a kind if they are longer in total than the file. Each section is read as a whole, so this
    /// check bounds the time.
    pub fn check_apart(&self, is_of_kind: impl Fn(&Header) -> bool) -> Result<(), EmbedError> {
        let mut room = self.len();
        for (index, section) in self.sections.iter().enumerate().filter(|(_, section)| is_of_kind(section)) {
            let (offset, size) = (section.offset, section.range().end - section.range().start);
            let name = self.headers.name_for_error(index);
            let overlap = Error::SectionsOverlap { section: name, offset, size };
            room = room.checked_sub(size).ok_or(overlap)?;
        }
        Ok(())
    }

    /// Returns the size of the file in bytes.
    pub fn len(&self) -> u64 {
        self.headers.bytes.len().to_u64()
    }

    /// Returns bytes of the file, as far as the file has them.
    pub fn bytes(&self, range: Range<u64>) -> &'a [u8] {
        let end = range.end.min(self.len());
        &self.headers.bytes[range.start.min(end).to_usize()..end.to_usize()]
    }

    /// Returns the range of the names of sections. It is empty if they have no names.
    pub fn name_range(&self) -> Range<u64> {
        self.sections.get(self.names).filter(|_| self.names != 0).map_or(0..0, Header::range)
    }

    /// Returns the end of the program headers.
    pub fn ph_end(&self) -> u64 {
        self.phoff + self.segments.len().to_u64() * Segment::LEN
    }

    /// Returns the segments that are loaded.
    pub fn loaded(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.is_loaded())
    }

    /// Returns the first segment of a type.
    pub fn segment(&self, kind: elf::ProgramType) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind.0)
    }

    /// Returns the tags and values of the dynamic section.
    pub fn dynamic_entries(&self) -> impl Iterator<Item = (i64, u64)> {
        let bytes = self.dynamic.map_or(&[][..], |dynamic| self.bytes(dynamic.range()));
        let entries = bytes.as_chunks().0.as_chunks::<2>().0;
        let words = entries.iter().map(|entry| entry.map(|word| self.endian.u64(word)));
        words.map(|[tag, value]| (tag as i64, value)).take_while(|(tag, _)| *tag != elf::DT_NULL.0)
    }

    /// Returns the loaded segment that contains a range of the file.
    pub fn load_with(&self, range: &Range<u64>) -> Option<&Segment> {
        self.loaded().find(|load| load.range().start <= range.start && range.end <= load.range().end)
    }

    /// Returns the first offset from `from` on that is in use. Section headers and sections use their bytes, apart from
    /// the section `except`. Segments use their bytes if they are not loaded, or start at or after `from`.
    pub fn next_use(&self, from: u64, except: Option<usize>) -> u64 {
        let sections = self.sections.iter().enumerate().filter(|(index, _)| Some(*index) != except);
        let sections = sections.map(|(_, section)| section.range());
        let segments = self.segments.iter().filter(|segment| {
            if segment.is_loaded() { segment.offset >= from } else { segment.kind != elf::PT_GNU_SFRAME.0 }
        });
        // Of the bytes that PT_PHDR counts, only the program headers are in use.
        let segments = segments.map(|segment| match segment.kind {
            kind if kind == elf::PT_PHDR.0 => self.phoff..self.ph_end(),
            _ => segment.used(),
        });
        let headers = [self.headers_range()];
        let used =
            sections.chain(segments).chain(headers).filter(|range| range.end > from && !range.is_empty());
        used.map(|range| range.start).min().unwrap_or(u64::MAX)
    }

    /// Returns whether bytes are zero, as far as the file has them.
    pub fn is_zero(&self, range: Range<u64>) -> bool {
        self.bytes(range).iter().all(|&byte| byte == 0)
    }

    /// Returns the page size that segments are aligned for, at most 64 KiB.
    pub fn page(&self) -> u64 {
        let smallest = match self.headers.arch.family() {
            Family::Aarch64 => LARGE_PAGE,
            Family::X86 | Family::S390x | Family::Riscv => PAGE,
        };
        let aligns = self.loaded().map(|load| load.align).filter(|align| align.is_power_of_two());
        match aligns.max() {
            Some(align) if (PAGE..=LARGE_PAGE).contains(&align) => align,
            Some(align) if align < PAGE => PAGE,
            _ => smallest,
        }
    }

    /// Returns the address of the first page after all loaded segments.
    pub fn free_address(&self) -> Result<u64, EmbedError> {
        // An empty segment has a page of its own, too.
        let ends = self.loaded().map(|load| load.end_address().max(load.address.saturating_add(1)));
        let end = ends.max().unwrap_or(0);
        let refused = EmbedError::Address { value: end, size: 0 };
        end.checked_next_multiple_of(self.page()).ok_or(refused)
    }
}
