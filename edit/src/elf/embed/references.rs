//! Updates references to moved sections: headers, the dynamic section, symbols.

use core::ops::Range;

use cfipack_container::SectionName;
use cfipack_format::widen::ToU64;
use object::elf;

use super::plan::{Edit, Move, Moved, Plan};
use super::relocations;
use super::renumber::{ST_SHNDX, ST_VALUE, SYM_LEN};
use super::source::Source;
use crate::embed_error::EmbedError;

/// The size of an entry of the dynamic section in bytes.
const DYN_LEN: usize = 16;

/// Tags of dynamic entries with the address of a section that may move, each with the tag of the section's size.
const TAGS: [(elf::DynamicTag, Option<elf::DynamicTag>); 10] = [
    (elf::DT_HASH, None),
    (elf::DT_GNU_HASH, None),
    (elf::DT_SYMTAB, None),
    (elf::DT_STRTAB, Some(elf::DT_STRSZ)),
    (elf::DT_VERSYM, None),
    (elf::DT_VERNEED, None),
    (elf::DT_VERDEF, None),
    (elf::DT_RELA, Some(elf::DT_RELASZ)),
    (elf::DT_JMPREL, Some(elf::DT_PLTRELSZ)),
    (elf::DT_RELR, Some(elf::DT_RELRSZ)),
];
/// Tags of entries with the address of a section that may not move.
const OTHER_TAGS: [elf::DynamicTag; 7] = [
    elf::DT_PLTGOT,
    elf::DT_INIT,
    elf::DT_FINI,
    elf::DT_INIT_ARRAY,
    elf::DT_FINI_ARRAY,
    elf::DT_PREINIT_ARRAY,
    elf::DT_SYMTAB_SHNDX,
];
/// `DT_ADDRRNGLO` to `DT_ADDRRNGHI`: entries of extensions that have addresses.
const ADDRESS_TAGS: Range<i64> = 0x6fff_fe00..0x6fff_ff00;
/// Android's packed relocations: `DT_ANDROID_REL`, `DT_ANDROID_RELA`, `DT_ANDROID_RELR`.
const ANDROID_TAGS: [i64; 3] = [0x6000_000f, 0x6000_0011, 0x6fff_e000];

/// Updates everything that refers to the ranges that the plan moves.
pub(super) fn apply(source: &Source<'_>, plan: &mut Plan) -> Result<(), EmbedError> {
    let moves = plan.moves.clone();
    let mut moved = Vec::new();
    for one in &moves {
        let start = source.load_with(&one.from).map(|load| load.address_of(one.from.start));
        let end = start.and_then(|start| start.checked_add(one.from.end - one.from.start));
        let (Some(start), Some(end)) = (start, end) else { return Err(EmbedError::NoSegments) };
        moved.push(Moved { addresses: start..end, delta: one.delta });
    }
    move_headers(source, plan, &moves, &moved)?;
    move_dynamic(source, plan, &moved)?;
    let readable = [elf::SHT_SYMTAB, elf::SHT_DYNSYM, elf::SHT_RELA, elf::SHT_RELR];
    source.check_apart(|section| readable.iter().any(|kind| section.is(*kind)))?;
    move_symbols(source, plan, &moves);
    relocations::check(source, &moved)
}

/// Updates the headers of sections and segments in moved ranges.
fn move_headers(
    source: &Source<'_>,
    plan: &mut Plan,
    moves: &[Move],
    moved: &[Moved],
) -> Result<(), EmbedError> {
    let find = |offset: u64| moves.iter().zip(moved).find(|(one, _)| one.from.contains(&offset));
    for (index, section) in plan.sections.iter_mut().enumerate().filter(|(_, section)| section.has_bytes()) {
        let Some((one, moved)) = find(section.offset) else { continue };
        if moved.addresses.start + (section.offset - one.from.start) != section.address {
            let name = source.headers.name_for_error(index);
            return Err(EmbedError::NoRoom { section: name, offset: section.offset, size: section.size });
        }
        section.offset = one.to + (section.offset - one.from.start);
        section.address = section.address.wrapping_add(one.delta);
    }
    for segment in plan.segments.iter_mut().filter(|segment| !segment.is_loaded() && segment.file_size != 0) {
        if let Some((one, _)) = find(segment.offset) {
            segment.move_by(one.to.wrapping_sub(one.from.start), one.delta);
        }
    }
    Ok(())
}

/// Updates addresses in the dynamic section.
fn move_dynamic(source: &Source<'_>, plan: &mut Plan, moved: &[Moved]) -> Result<(), EmbedError> {
    let Some(dynamic) = source.dynamic else { return Ok(()) };
    let entries: Vec<_> = source.dynamic_entries().collect();
    for (index, &(tag, value)) in entries.iter().enumerate() {
        let offset = dynamic.offset + (index * DYN_LEN).to_u64();
        let refused = EmbedError::Reference { section: SectionName::new(".dynamic"), offset, value };
        let known = TAGS.iter().find(|(known, _)| known.0 == tag);
        let is_address = known.is_some()
            || OTHER_TAGS.iter().any(|other| other.0 == tag)
            || ADDRESS_TAGS.contains(&tag)
            || ANDROID_TAGS.contains(&tag);
        let size_tag = known.and_then(|(_, size_tag)| *size_tag);
        let size = size_tag.and_then(|known| entries.iter().find(|(tag, _)| *tag == known.0));
        let size = size.map_or(1, |(_, size)| (*size).max(1));
        let end = value.saturating_add(size);
        if !is_address {
            continue;
        }
        let touched = moved.iter().find(|one| value < one.addresses.end && one.addresses.start < end);
        let Some(one) = touched else { continue };
        if known.is_none() || value < one.addresses.start || one.addresses.end < end {
            return Err(refused);
        }
        let what = format!("entry {index} of the dynamic section");
        let bytes = source.endian.put_u64(value.wrapping_add(one.delta)).to_vec();
        plan.edits.push(Edit { offset: offset + 8, what, bytes });
    }
    Ok(())
}

/// Updates the values of symbols in moved sections.
fn move_symbols(source: &Source<'_>, plan: &mut Plan, moves: &[Move]) {
    let sections = source.sections.iter().enumerate().filter(|(_, section)| section.has_bytes());
    let moved = sections.filter_map(|(index, section)| {
        let one = moves.iter().find(|one| one.from.contains(&section.offset))?;
        Some((index as u16, section.address..=section.address.saturating_add(section.size), one.delta))
    });
    let moved: Vec<_> = moved.collect();
    let (first, last) = (moved.first().map_or(1, |one| one.0), moved.last().map_or(0, |one| one.0));
    for table in &source.sections {
        if !table.is(elf::SHT_SYMTAB) && !table.is(elf::SHT_DYNSYM) {
            continue;
        }
        for (number, symbol) in source.bytes(table.range()).chunks_exact(SYM_LEN).enumerate() {
            let section = symbol[ST_SHNDX..].first_chunk().map_or(0, |&field| source.endian.u16(field));
            if !(first..=last).contains(&section) {
                continue;
            }
            let value = symbol[ST_VALUE..].first_chunk().map_or(0, |&field| source.endian.u64(field));
            let found = moved.binary_search_by_key(&section, |one| one.0).ok().map(|at| &moved[at]);
            // `__ehdr_start` has the index of the first section, but its address is not in that section.
            if let Some((_, _, delta)) = found.filter(|(_, addresses, _)| addresses.contains(&value)) {
                let offset = table.offset + (number * SYM_LEN + ST_VALUE).to_u64();
                let what = format!("value of symbol {number} of the table at {:#x}", table.offset);
                let bytes = source.endian.put_u64(value.wrapping_add(*delta)).to_vec();
                plan.edits.push(Edit { offset, what, bytes });
            }
        }
    }
}
