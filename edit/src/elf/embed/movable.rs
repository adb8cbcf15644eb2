//! Decides which sections may move. Everything that refers to a section must be known before it may move.

use cfipack_format::widen::ToUsize;
use object::elf::FileHeader64;
use object::read::elf::NoteIterator;
use object::{SectionIndex, elf};

use super::header::{Header, Segment};
use super::source::Source;

/// The largest alignment of a section that moves. Sections after the program headers usually have at most 16.
const MAX_ALIGN: u64 = 0x1000;
/// The size of the largest section of notes that is read. The largest known section of notes has 100 bytes.
const MAX_NOTES: u64 = 0x1000;
/// The last of GNU's notes without addresses: ABI, capabilities, build-id, gold's version, properties.
const MAX_GNU_TYPE: u32 = elf::NT_GNU_PROPERTY_TYPE_0.0;
/// Other owners of notes without addresses: packages, Go's build-id.
const OWNERS: [&[u8]; 2] = [b"FDO", b"Go"];

/// The kinds of sections that may move in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kinds {
    /// The interpreter's name, known notes, and hash tables.
    Small,
    /// Also the dynamic symbols, with their names and versions, and the dynamic relocations.
    Dynamic,
}

impl Kinds {
    /// Returns whether a section may move.
    pub fn section(self, source: &Source<'_>, index: usize) -> bool {
        let section = &source.sections[index];
        let align = section.align.max(1);
        // Symbols with extended section indexes are not searched.
        if !section.has(elf::SHF_ALLOC)
            || section.has(elf::SHF_WRITE)
            || section.has(elf::SHF_EXECINSTR)
            || section.has(elf::SHF_TLS)
            || !align.is_power_of_two()
            || align > MAX_ALIGN
            || index >= usize::from(elf::SHN_LORESERVE)
        {
            return false;
        }
        let is_dynamic = source.dynamic.is_some();
        let has_dynamic = is_dynamic && self == Self::Dynamic;
        match elf::SectionType(section.kind) {
            elf::SHT_PROGBITS => source.interp == Some(section.range()),
            elf::SHT_NOTE => has_known_notes(source, section),
            elf::SHT_GNU_HASH | elf::SHT_HASH => is_dynamic,
            elf::SHT_DYNSYM | elf::SHT_GNU_VERSYM | elf::SHT_GNU_VERNEED | elf::SHT_GNU_VERDEF => has_dynamic,
            elf::SHT_RELA | elf::SHT_RELR => has_dynamic,
            elf::SHT_STRTAB => has_dynamic && source.dynamic_names.binary_search(&(index as u32)).is_ok(),
            _ => false,
        }
    }
}

/// Returns whether a segment that is not loaded may move with its sections.
pub(super) fn segment(segment: &Segment) -> bool {
    [elf::PT_NOTE, elf::PT_INTERP, elf::PT_GNU_PROPERTY].iter().any(|kind| kind.0 == segment.kind)
}

/// Returns whether a section is a table.
pub(super) fn is_table(source: &Source<'_>, index: usize) -> bool {
    let section = &source.sections[index];
    let header = || source.headers.sections.section(SectionIndex(index));
    section.is(elf::SHT_GNU_SFRAME) || header().is_ok_and(|header| source.headers.name(header) == b".sframe")
}

/// Returns whether a section has the relocations of a table. Linkers leave them with `--emit-relocs`, and they are not
/// loaded.
pub(super) fn is_relocations_of(section: &Header, table: usize) -> bool {
    let has_relocations = section.is(elf::SHT_RELA) || section.is(elf::SHT_REL);
    has_relocations && !section.has(elf::SHF_ALLOC) && section.info.to_usize() == table
}

/// Returns whether a section consists of notes of known owners.
fn has_known_notes(source: &Source<'_>, section: &Header) -> bool {
    let Some(notes) = notes(source, section) else { return false };
    notes.into_iter().all(|(owner, kind)| match owner {
        b"GNU" => kind <= MAX_GNU_TYPE,
        other => OWNERS.contains(&other),
    })
}

/// Returns whether a section has a build-id.
pub(super) fn has_build_id(source: &Source<'_>, section: &Header) -> bool {
    if !section.is(elf::SHT_NOTE) {
        return false;
    }
    let notes = notes(source, section).unwrap_or_default();
    notes.into_iter().any(|(owner, kind)| owner == b"GNU" && kind == elf::NT_GNU_BUILD_ID.0)
}

/// Returns the owners and types of a section's notes, or `None` if they are damaged.
fn notes<'a>(source: &Source<'a>, section: &Header) -> Option<Vec<(&'a [u8], u32)>> {
    if section.size > MAX_NOTES {
        return None;
    }
    let endian = source.headers.endian;
    let align = if section.align == 8 { 8 } else { 4 };
    let notes = NoteIterator::<FileHeader64<_>>::new(endian, align, source.bytes(section.range())).ok()?;
    // Go includes padding in the length of its name: `name` is without it.
    notes.map(|note| note.ok().map(|note| (note.name(), note.n_type(endian).0))).collect()
}
