//! Reads the load commands of an object, and the parts of the file that they lead to.

use std::borrow::Cow;
use std::ops::Range;

use cfipack_container::Error;
use cfipack_format::widen::{ToU64, ToUsize};
use object::LittleEndian as LE;
use object::macho::{self, LoadCommandType, MachHeader64, Section64, SegmentCommand64};
use object::read::macho::{MachHeader as _, Segment as _};

use super::splices::Splices;

/// A field of the load commands that holds an offset in the file.
#[derive(Debug)]
pub(super) struct OffsetField {
    /// The offset of the field. The field has 4 bytes.
    at: usize,
    what: Cow<'static, str>,
    /// The value of the field: the start of the part.
    offset: u64,
    /// The length of the part in bytes.
    len: u64,
}

/// The load commands, as far as an edit needs them.
#[derive(Debug, Default)]
pub(super) struct Commands {
    /// The place of the load command of the only segment.
    pub(super) segment: Range<usize>,
    /// The number of sections in the segment.
    pub(super) num_sections: u32,
    /// The segment's place in the file.
    fileoff: u64,
    pub(super) vmaddr: u64,
    vmsize: u64,
    /// The fields with offsets, including the fields of sections and relocations.
    offsets: Vec<OffsetField>,
    /// The length of all load commands in bytes.
    len: u32,
}

const SEGMENT: usize = size_of::<SegmentCommand64<LE>>();
/// The size of a section's header in bytes.
const SECTION: usize = size_of::<Section64<LE>>();

/// Commands without an offset in the file.
const PLAIN: [LoadCommandType; 9] = [
    macho::LC_UUID,
    macho::LC_BUILD_VERSION,
    macho::LC_VERSION_MIN_MACOSX,
    macho::LC_VERSION_MIN_IPHONEOS,
    macho::LC_VERSION_MIN_TVOS,
    macho::LC_VERSION_MIN_WATCHOS,
    macho::LC_LINKER_OPTION,
    macho::LC_SOURCE_VERSION,
    macho::LC_TARGET_TRIPLE,
];

/// Returns the offset fields of a command, or `None` for an unknown command. Each has the place of the field in the
/// command, the place of the field with the part's length, and the unit of the length in bytes. Addresses inside these
/// parts are addresses of sections, and do not change.
fn offsets(command: LoadCommandType) -> Option<&'static [(usize, usize, u64, &'static str)]> {
    Some(match command {
        macho::LC_SYMTAB => {
            &[(8, 12, 16, "LC_SYMTAB: offset of symbols"), (16, 20, 1, "LC_SYMTAB: offset of strings")]
        }
        macho::LC_DYSYMTAB => &[
            (32, 36, 8, "LC_DYSYMTAB: offset of the table of contents"),
            (40, 44, 56, "LC_DYSYMTAB: offset of modules"),
            (48, 52, 4, "LC_DYSYMTAB: offset of referenced symbols"),
            (56, 60, 4, "LC_DYSYMTAB: offset of indirect symbols"),
            (64, 68, 8, "LC_DYSYMTAB: offset of external relocations"),
            (72, 76, 8, "LC_DYSYMTAB: offset of local relocations"),
        ],
        macho::LC_DATA_IN_CODE => &[(8, 12, 1, "LC_DATA_IN_CODE: offset")],
        macho::LC_LINKER_OPTIMIZATION_HINT => &[(8, 12, 1, "LC_LINKER_OPTIMIZATION_HINT: offset")],
        macho::LC_FUNCTION_STARTS => &[(8, 12, 1, "LC_FUNCTION_STARTS: offset")],
        command if PLAIN.contains(&command) => &[],
        _ => return None,
    })
}

impl Commands {
    /// Reads the load commands of a 64-bit object.
    ///
    /// Returns an error if a command is unknown or does not belong in an object, or if a part lies beyond the end of
    /// the file.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let header = MachHeader64::<LE>::parse(bytes, 0).map_err(|_| damaged(0, bytes.len().to_u64()))?;
        let len = header.sizeofcmds(LE);
        let start = size_of::<MachHeader64<LE>>().to_u64();
        let mut commands = Self { len, ..Self::default() };
        let list = header.load_commands(LE, bytes, 0).map_err(|_| damaged(start, len.into()))?;
        for command in list {
            let command = command.map_err(|_| damaged(start, len.into()))?;
            let (at, raw) = (command.offset().to_usize(), command.raw_data());
            if command.cmd() == macho::LC_SEGMENT_64 {
                commands.read_segment(at, raw)?;
                continue;
            }
            let Some(fields) = offsets(command.cmd()) else {
                return Err(unsupported("load command", command.offset(), command.cmd().0.into()));
            };
            for &(field, len, unit, what) in fields {
                let word = |at| word(raw, at).ok_or(damaged(command.offset(), raw.len().to_u64()));
                let (offset, count) = (word(field)?, word(len)?);
                commands.add_offset(at + field, what.into(), offset, u64::from(count) * unit);
            }
        }
        if commands.segment.is_empty() {
            return Err(unsupported("number of segments", start, 0));
        }
        commands.check_parts(bytes.len().to_u64())?;
        Ok(commands)
    }

    fn read_segment(&mut self, at: usize, raw: &[u8]) -> Result<(), Error> {
        let damaged = || Error::Table { what: "segment", offset: at.to_u64(), value: raw.len().to_u64() };
        if !self.segment.is_empty() {
            return Err(unsupported("second segment", at.to_u64(), 1));
        }
        let (segment, data) = object::pod::from_bytes::<SegmentCommand64<LE>>(raw).map_err(|()| damaged())?;
        let sections = segment.sections(LE, data).map_err(|_| damaged())?;
        // A new header is inserted after the last header.
        if data.len() != sections.len() * SECTION {
            return Err(damaged());
        }
        self.segment = at..at + raw.len();
        self.num_sections = segment.nsects.get(LE);
        self.fileoff = segment.fileoff.get(LE);
        (self.vmaddr, self.vmsize) = (segment.vmaddr.get(LE), segment.vmsize.get(LE));
        for (i, section) in sections.iter().enumerate() {
            let header = self.section_header(i);
            let name = |what| format!("section {}: {what}", name_of(&section.sectname));
            let no_bytes = [macho::S_ZEROFILL, macho::S_GB_ZEROFILL, macho::S_THREAD_LOCAL_ZEROFILL];
            if !no_bytes.contains(&section.flags.get(LE).typ()) {
                let (offset, len) = (section.offset.get(LE), section.size.get(LE));
                self.add_offset(header + 48, name("offset").into(), offset, len);
            }
            let count = u64::from(section.nreloc.get(LE));
            let what = name("offset of relocations").into();
            self.add_offset(header + 56, what, section.reloff.get(LE), count * 8);
        }
        Ok(())
    }

    fn add_offset(&mut self, at: usize, what: Cow<'static, str>, offset: u32, len: u64) {
        // Tables that do not exist often have the offset 0.
        if offset != 0 || len != 0 {
            self.offsets.push(OffsetField { at, what, offset: offset.into(), len });
        }
    }

    /// Refuses parts that lie beyond the file, or share bytes with another part or the load commands.
    fn check_parts(&self, len: u64) -> Result<(), Error> {
        if self.fileoff > len {
            let offset = (self.segment.start + 40).to_u64();
            return Err(Error::Table { what: "segment: offset in the file", offset, value: self.fileoff });
        }
        let mut parts: Vec<_> = self.offsets.iter().filter(|part| part.len != 0).collect();
        parts.sort_by_key(|part| part.offset);
        let mut done = size_of::<MachHeader64<LE>>().to_u64() + u64::from(self.len);
        for part in parts {
            let (offset, value) = (part.at.to_u64(), part.len);
            if part.offset < done {
                return Err(Error::Table { what: "layout: parts of the file overlap", offset, value });
            }
            let end = part.offset.checked_add(part.len).filter(|end| *end <= len);
            let damaged = Error::Table { what: "part that a load command leads to", offset, value };
            done = end.ok_or(damaged)?;
        }
        Ok(())
    }

    /// Returns the offset of a section's header in the file.
    pub(super) fn section_header(&self, section: usize) -> usize {
        self.segment.start + SEGMENT + section * SECTION
    }

    /// Returns the start of the first part of the file at or after `offset`, or `len` if there is no part.
    pub(super) fn next_part(&self, offset: u64, len: usize) -> usize {
        let parts = self.offsets.iter().filter(|part| part.len != 0);
        let starts = parts.map(|part| part.offset).filter(|start| *start >= offset);
        starts.min().map_or(len, |start| start.to_usize())
    }

    /// Refuses another section if its number does not fit into the byte that a symbol has for it.
    pub(super) fn check_more_sections(&self) -> Result<(), Error> {
        if self.num_sections < u32::from(u8::MAX) {
            return Ok(());
        }
        let offset = self.segment.start.to_u64() + 64;
        Err(unsupported("number of sections", offset, self.num_sections.into()))
    }

    /// Forgets a field. The caller then writes it.
    pub(super) fn release(&mut self, field: usize) {
        self.offsets.retain(|part| part.at != field);
    }

    /// Replaces the fields that lead to parts that `splices` moves.
    ///
    /// # Errors
    /// Returns an error if a part moves beyond 4 GiB.
    pub(super) fn update(&self, splices: &mut Splices) -> Result<(), Error> {
        let mut fields = Vec::new();
        for OffsetField { at, what, offset, len } in &self.offsets {
            let moved = splices.moved(*offset);
            let new = u32::try_from(moved).map_err(|_| {
                let (offset, value) = ((*at).to_u64(), moved.saturating_add(*len));
                Error::Table { what: "layout: a part moves beyond 4 GiB", offset, value }
            })?;
            if moved != *offset {
                fields.push((*at, what.clone(), new.to_le_bytes().to_vec()));
            }
        }
        let fileoff = splices.moved(self.fileoff);
        if fileoff != self.fileoff {
            let what = "LC_SEGMENT_64: offset".into();
            fields.push((self.segment.start + 40, what, fileoff.to_le_bytes().to_vec()));
        }
        for (at, what, bytes) in fields {
            splices.replace(at..at + bytes.len(), what, bytes);
        }
        Ok(())
    }

    /// Makes the segment end with the last section. `end_in_file` is the offset of that end in the new file, and `end`
    /// its address.
    pub(super) fn resize_segment(&self, splices: &mut Splices, end_in_file: u64, end: u64) {
        let filesize = end_in_file.saturating_sub(splices.moved(self.fileoff));
        let vmsize = end.saturating_sub(self.vmaddr).max(self.vmsize).max(filesize);
        let fields = [
            (32, "LC_SEGMENT_64: size in memory", vmsize),
            (48, "LC_SEGMENT_64: size in the file", filesize),
        ];
        for (field, what, value) in fields {
            let at = self.segment.start + field;
            splices.replace(at..at + 8, what, value.to_le_bytes());
        }
    }

    /// Counts a new section, for which the caller inserts the header.
    pub(super) fn add_section(&self, splices: &mut Splices) {
        let segment = self.segment.start;
        let fields = [
            (20, "header: size of load commands", self.len + SECTION as u32),
            (segment + 4, "LC_SEGMENT_64: size of the command", (self.segment.len() + SECTION) as u32),
            (segment + 64, "LC_SEGMENT_64: number of sections", self.num_sections + 1),
        ];
        for (at, what, value) in fields {
            splices.replace(at..at + 4, what, value.to_le_bytes());
        }
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn name_of(name: &[u8; 16]) -> String {
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..len]).into_owned()
}

fn unsupported(what: &'static str, offset: u64, value: u64) -> Error {
    Error::Unsupported { what, offset, value, name: None }
}

fn damaged(offset: u64, value: u64) -> Error {
    Error::Table { what: "load commands", offset, value }
}
