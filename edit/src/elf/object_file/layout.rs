//! Places the parts of a changed object. They keep the old order. A part keeps its old offset if no part before it has
//! another length.

use std::ops::Range;

use cfipack_container::raw::elf::Headers;
use cfipack_container::{Error, SectionName};
use cfipack_format::widen::{ToU64, ToUsize};
use object::Endianness;
use object::elf;
use object::elf::{FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _};

use super::slot::Slot;
use crate::embed_error::EmbedError;

/// The alignment of the section headers.
const HEADERS_ALIGN: usize = 8;

/// The largest alignment that counts for a section if the old file does not align the section.
const MAX_MISALIGNED: usize = 64;

/// A part of the file that has bytes.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    /// The range in the old file. Empty for a new part.
    pub(super) old: Range<usize>,
    /// The number of zeros before the part in the old file.
    pub(super) old_gap: usize,
    align: usize,
    /// True for a part with new contents.
    is_new: bool,
    /// The start in the new file.
    pub(super) start: usize,
}

impl Part {
    /// Creates a part without new contents, before its gap and its place in the new file are known.
    fn kept(kind: PartKind, old: Range<usize>, align: usize) -> Self {
        Self { kind, old, old_gap: 0, align, is_new: false, start: 0 }
    }
}

/// The kind of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PartKind {
    FileHeader,
    /// The contents of a section, by slot.
    Section(usize),
    SectionHeaders,
    /// Bytes that nothing describes, not all of them zero.
    Unknown,
}

/// Returns the parts of the old file, in its order. Between them are gaps of zeros.
pub(super) fn parts(headers: &Headers<'_>, slots: &[Slot<'_>]) -> Result<Vec<Part>, EmbedError> {
    let file = headers.bytes;
    let mut all = vec![Part::kept(PartKind::FileHeader, 0..size_of::<FileHeader64<Endianness>>(), 1)];
    let table_len = headers.sections.len() * size_of::<SectionHeader64<Endianness>>();
    let table = headers.file.e_shoff(headers.endian).to_usize();
    all.push(Part::kept(PartKind::SectionHeaders, table..table + table_len, HEADERS_ALIGN));
    for (index, slot) in slots.iter().enumerate().take(headers.sections.len()) {
        if let Some(old) = slot.old.clone() {
            let align = usize::try_from(slot.header.sh_addralign(headers.endian)).unwrap_or(1).max(1);
            all.push(Part { is_new: slot.new.is_some(), ..Part::kept(PartKind::Section(index), old, align) });
        }
    }
    all.sort_by_key(|part| part.old.start);
    let mut parts: Vec<Part> = Vec::with_capacity(all.len());
    let mut end = 0;
    for mut part in all {
        let Some(gap) = file.get(end..part.old.start) else {
            let section = match part.kind {
                PartKind::Section(slot) => slots[slot].name,
                _ => SectionName::new(""),
            };
            let (offset, size) = (part.old.start.to_u64(), part.old.len().to_u64());
            return Err(EmbedError::File(Error::SectionsOverlap { section, offset, size }));
        };
        let len = gap.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        if len != 0 {
            parts.push(Part::kept(PartKind::Unknown, end..end + len, 1));
        }
        part.old_gap = gap.len() - len;
        end = part.old.end;
        parts.push(part);
    }
    if file[end..].iter().any(|&byte| byte != 0) {
        return Err(EmbedError::Overlay { offset: end.to_u64(), size: (file.len() - end).to_u64() });
    }
    parts.push(Part::kept(PartKind::Unknown, end..file.len(), 1));
    Ok(parts)
}

/// Returns the parts of the new file, in its order. Removed parts are gone, and new sections follow the last old
/// section. `len` returns the new length of a part.
pub(super) fn place(
    parts: Vec<Part>,
    slots: &mut [Slot<'_>],
    endian: Endianness,
    len: impl Fn(&Part, &[Slot<'_>]) -> usize,
) -> Vec<Part> {
    let is_section = |part: &Part| !matches!(part.kind, PartKind::SectionHeaders | PartKind::Unknown);
    let mut last_section = parts.iter().rposition(is_section);
    // Bytes that nothing describes stay with the part before them, unless they are the zeros at the end of the file.
    if let Some(last) = &mut last_section
        && *last + 2 < parts.len()
        && parts[*last + 1].kind == PartKind::Unknown
    {
        *last += 1;
    }
    let is_added = |slot: &Slot<'_>| slot.old.is_none() && slot.new.is_some() && !slot.is_removed;
    let added: Vec<_> = (0..slots.len()).filter(|&slot| is_added(&slots[slot])).collect();
    let mut placed = Vec::with_capacity(parts.len() + added.len());
    // Old start and end, and new start and end, of each part.
    let mut anchors = Vec::with_capacity(parts.len());
    let mut at = 0;
    for (i, mut part) in parts.into_iter().enumerate() {
        let is_removed = matches!(part.kind, PartKind::Section(slot) if slots[slot].is_removed);
        part.start = at;
        if !is_removed {
            part.start += padding(&part, at);
            at = part.start + len(&part, slots);
        }
        anchors.push((part.old.clone(), part.start..at));
        if !is_removed {
            placed.push(part);
        }
        if Some(i) != last_section {
            continue;
        }
        for &slot in &added {
            let align = slots[slot].header.sh_addralign(endian).clamp(1, HEADERS_ALIGN as u64).to_usize();
            let start = at.next_multiple_of(align);
            let part = Part { start, is_new: true, ..Part::kept(PartKind::Section(slot), 0..0, align) };
            at = start + len(&part, slots);
            placed.push(part);
        }
    }
    for part in &placed {
        if let PartKind::Section(slot) = part.kind {
            slots[slot].header.sh_offset.set(endian, part.start.to_u64());
        }
    }
    place_empty(slots, &anchors, endian);
    placed
}

/// Returns the number of zeros before a part, if the part before it ends at `at`. These are the zeros that the
/// alignment needs, plus the zeros that the old file had beyond its alignment. A part that was not aligned keeps its
/// remainder.
fn padding(part: &Part, at: usize) -> usize {
    let is_aligned = part.old.start.is_multiple_of(part.align);
    let modulus = if is_aligned { part.align } else { part.align.min(MAX_MISALIGNED) };
    let remainder = if part.is_new { 0 } else { part.old.start % modulus };
    let needed = |at: usize| (remainder + modulus - at % modulus) % modulus;
    let end = part.old.start - part.old_gap;
    needed(at) + part.old_gap.saturating_sub(needed(end))
}

/// Moves sections without bytes, so that each keeps its distance from the part before it. Section 0 is no section, and
/// stays as it is.
fn place_empty(slots: &mut [Slot<'_>], anchors: &[(Range<usize>, Range<usize>)], endian: Endianness) {
    let is_section = |slot: &&mut Slot<'_>| slot.header.sh_type(endian) != elf::SHT_NULL;
    for slot in slots.iter_mut().filter(|slot| slot.has_no_bytes()).filter(is_section) {
        let old = slot.header.sh_offset(endian);
        let before = anchors.partition_point(|(part, _)| part.start.to_u64() <= old);
        let Some((part, new)) = before.checked_sub(1).map(|i| &anchors[i]) else { continue };
        let offset = match old.checked_sub(part.end.to_u64()) {
            Some(distance) => new.end.to_u64().saturating_add(distance),
            None => new.start.to_u64() + (old - part.start.to_u64()),
        };
        slot.header.sh_offset.set(endian, offset);
    }
}
