//! Checks the `.sframe` section of the new file, and the segment that leads to it.

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::Check;
use super::error::StructureError;
use super::image::Image;
use super::plain::{Section, Segment};

/// The first two bytes of a table, as a number.
const MAGIC: u16 = 0xdee2;

/// Checks the new file's tables, their segment and their relocations. Returns how many tables there are.
pub(super) fn check(check: &Check<'_>) -> Result<usize, StructureError> {
    let new = check.new;
    let tables: Vec<_> = (1..new.sections.len()).filter(|&index| new.is_table(index)).collect();
    let is_kept = is_kept(check, &tables);
    if !is_kept {
        tables.iter().try_for_each(|&table| check_section(new, table))?;
    }
    for section in (1..new.sections.len()).filter(|&section| new.belongs_to_table(section)) {
        if !new.is_table(section) {
            check_relocations(new, section)?;
        }
    }
    if !new.is_relocatable && !is_kept {
        check_segment(new, &tables)?;
    }
    Ok(tables.len())
}

/// Returns whether the tables are the tables of the original, at the same addresses. They need not follow the rules
/// that are checked here: another tool may have made them.
fn is_kept(check: &Check<'_>, tables: &[usize]) -> bool {
    let Check { old, new, .. } = check;
    let mut of_old = (1..old.sections.len()).filter(|&index| old.is_table(index));
    let comparable = |section: Section| Section { name: 0, offset: 0, ..section };
    let are_same = tables.iter().all(|&table| {
        let Some(index) = of_old.next() else { return false };
        comparable(old.sections[index]) == comparable(new.sections[table])
            && old.name(index) == new.name(table)
            && old.contents(index) == new.contents(table)
    });
    let segments = |image: &Image<'_>| -> Vec<Segment> {
        let all = image.segments.iter().filter(|segment| segment.kind == elf::PT_GNU_SFRAME.0);
        let relative = all.map(|segment| {
            // Compares the distance of the segment's bytes from the bytes that are loaded at its address.
            let loaded = image.loads.offset_of(segment.vaddr, segment.filesz).unwrap_or(0);
            Segment { offset: segment.offset.wrapping_sub(loaded), ..*segment }
        });
        relative.collect()
    };
    are_same && of_old.next().is_none() && segments(old) == segments(new)
}

fn require(field: &'static str, expected: u64, found: u64) -> Result<(), StructureError> {
    if expected == found { Ok(()) } else { Err(StructureError::Table { field, expected, found }) }
}

fn check_section(new: &Image<'_>, table: usize) -> Result<(), StructureError> {
    let section = new.sections[table];
    let bytes = new.contents(table);
    require("sh_type", elf::SHT_GNU_SFRAME.0.into(), section.kind.into())?;
    let group = if new.is_relocatable { section.flags & elf::SHF_GROUP.0 } else { 0 };
    require("sh_flags", elf::SHF_ALLOC.0 | group, section.flags)?;
    require("length of the name", 7, new.name(table).len().to_u64())?;
    require("name", 1, new.name(table).starts_with(b".sframe").into())?;
    require("sh_link", 0, section.link.into())?;
    require("sh_info", 0, section.info.into())?;
    require("sh_entsize", 0, section.entsize)?;
    require("sh_addralign", 8, section.align)?;
    require("sh_addr modulo 8", 0, section.addr % 8)?;
    require("sh_addr of an object's", 0, if new.is_relocatable { section.addr } else { 0 })?;
    require("sh_offset modulo 8", 0, section.offset % 8)?;
    require("magic", MAGIC.into(), new.u16(bytes, 0).into())
}

/// Checks that a linked file has one table, in read-only memory, and that its segment covers the table.
fn check_segment(new: &Image<'_>, tables: &[usize]) -> Result<(), StructureError> {
    let mut segments = new.segments.iter().filter(|segment| segment.kind == elf::PT_GNU_SFRAME.0);
    require("number of segments", tables.len().to_u64(), segments.clone().count().to_u64())?;
    require("number of sections", tables.len().min(1).to_u64(), tables.len().to_u64())?;
    let (Some(&table), Some(segment)) = (tables.first(), segments.next()) else { return Ok(()) };
    let section = new.sections[table];
    require("p_vaddr", section.addr, segment.vaddr)?;
    require("p_paddr", section.addr, segment.paddr)?;
    require("p_offset", section.offset, segment.offset)?;
    require("p_memsz", segment.filesz, segment.memsz)?;
    require("p_flags", elf::PF_R.0.into(), segment.flags.into())?;
    require("p_align", section.align, segment.align)?;
    // ld reserves a size before it merges tables, and leaves the rest zero.
    let end = new.range(segment.offset, segment.filesz).map(|range| range.end);
    let rest = (section.offset + section.size).to_usize();
    let rest = end.and_then(|end| new.bytes.get(rest..end));
    let is_reserve = rest.is_some_and(|rest| rest.iter().all(|&byte| byte == 0));
    require("p_filesz", section.size, if is_reserve { section.size } else { segment.filesz })?;
    let load = new.loads.containing(segment.vaddr, segment.memsz);
    let flags = load.map_or(0, |load| load.segment.flags);
    require("p_flags of PT_LOAD without PF_X", elf::PF_R.0.into(), (flags & !elf::PF_X.0).into())?;
    let offset = new.loads.offset_of(segment.vaddr, segment.filesz);
    require("sh_offset", offset.unwrap_or(u64::MAX), section.offset)
}

/// Checks that the relocations of an object's table are for fields in it, and name symbols of sections.
fn check_relocations(new: &Image<'_>, section: usize) -> Result<(), StructureError> {
    let header = new.sections[section];
    let entry = if header.kind == elf::SHT_RELA.0 { 24 } else { 16 };
    let link = new.sections.get(header.link.to_usize());
    let symbols = link.map_or(0, |link| link.size / 24);
    let is_symbols = link.is_some_and(|link| link.kind == elf::SHT_SYMTAB.0);
    require("sh_link of its relocations", 1, is_symbols.into())?;
    require("sh_entsize of its relocations", entry, header.entsize)?;
    require("sh_size of its relocations", header.size / entry * entry, header.size)?;
    require("sh_addr of its relocations", 0, header.addr)?;
    require("sh_addralign of its relocations", 8, header.align)?;
    let is_named = [&b".rela.sframe"[..], b".rel.sframe"].contains(&new.name(section));
    require("name of its relocations", 1, is_named.into())?;
    let flags = elf::SHF_INFO_LINK.0 | elf::SHF_GROUP.0;
    require("sh_flags of its relocations", header.flags & flags, header.flags)?;
    let size = new.sections[header.info.to_usize()].size;
    for relocation in new.contents(section).chunks_exact(entry.to_usize()) {
        let (field, symbol) = (new.u64(relocation, 0), new.u64(relocation, 8) >> 32);
        require("r_offset in the table", 1, (field < size).into())?;
        require("symbol of a relocation that exists", 1, (symbol < symbols).into())?;
    }
    Ok(())
}
