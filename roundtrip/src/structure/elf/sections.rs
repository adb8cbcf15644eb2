//! Compares section headers, and the bytes of sections.

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::error::StructureError;
use super::groups::SHT_LLVM_ADDRSIG;
use super::image::Image;
use super::pairs::{Pair, Pairs};
use super::plain::{SEGMENT, Section};
use super::symbols::{SymbolMap, map_of};
use super::{Check, check_fields, dynamic, groups, relocations, segments, strings, symbols};

/// Checks each section: its header, then its bytes.
pub(super) fn check(check: &Check<'_>, maps: &[SymbolMap]) -> Result<(), StructureError> {
    // How far the last section with bytes has moved in the file.
    let mut shift = 0;
    for &pair in &check.pairs.pairs {
        if pair.new == 0 {
            check_first(check.old, check.new)?;
            continue;
        }
        check_header(check, pair, maps, shift)?;
        let (from, to) = (check.old.sections[pair.old], check.new.sections[pair.new]);
        if from.has_bytes() && from.addr == to.addr {
            shift = to.offset.wrapping_sub(from.offset);
        }
        check_contents(check, pair, maps)?;
    }
    Ok(())
}

/// Checks the first section header. It holds the numbers that do not fit into the ELF header. A field that holds no
/// such number in either file must stay.
fn check_first(old: &Image<'_>, new: &Image<'_>) -> Result<(), StructureError> {
    let (from, to) = (old.sections[0], new.sections[0]);
    let expected = |field: usize, means: u16, number: u64, from: u64| match (
        new.u16(new.bytes, field) == means,
        old.u16(old.bytes, field) == means,
    ) {
        (true, _) => number,
        (false, true) => 0,
        (false, false) => from,
    };
    let size = expected(60, 0, new.sections.len().to_u64(), from.size);
    let link = expected(62, elf::SHN_XINDEX.0, new.names.to_u64(), from.link.into());
    let info = expected(56, elf::PN_XNUM, new.segments.len().to_u64(), from.info.into());
    let fields = [
        ("sh_name", from.name.into(), to.name.into()),
        ("sh_addr", from.addr, to.addr),
        ("sh_offset", from.offset, to.offset),
        ("sh_size", size, to.size),
    ];
    check_fields(&fields, |field, old, new| StructureError::Section { index: 0, field, old, new })?;
    check_numbers(0, from, to, link, info)
}

/// Checks the fields that no edit of the section's bytes changes. `link` and `info` are the values that follow from the
/// original.
fn check_numbers(
    index: usize,
    from: Section,
    to: Section,
    link: u64,
    info: u64,
) -> Result<(), StructureError> {
    let fields = [
        ("sh_type", u64::from(from.kind), u64::from(to.kind)),
        ("sh_flags", from.flags, to.flags),
        ("sh_addralign", from.align, to.align),
        ("sh_entsize", from.entsize, to.entsize),
        ("sh_link", link, to.link.into()),
        ("sh_info", info, to.info.into()),
    ];
    check_fields(&fields, |field, old, new| StructureError::Section { index, field, old, new })
}

fn check_header(check: &Check<'_>, pair: Pair, maps: &[SymbolMap], shift: u64) -> Result<(), StructureError> {
    let Check { old, new, pairs } = check;
    let (from, to) = (old.sections[pair.old], new.sections[pair.new]);
    let differs = |field, old, new| Err(StructureError::Section { index: pair.new, field, old, new });
    // `sh_link` may be no index of a section.
    let link = pairs.new_of(from.link.to_usize()).map_or(from.link.into(), |link| link.to_u64());
    let info = expected_info(check, pair, maps);
    check_numbers(pair.new, from, to, link, info)?;
    let has_lost_symbols = map_of(maps, pair.old).is_some_and(|map| !map.is_identity());
    let may_be_resized = if pair.old == old.names {
        true
    } else if old.is_relocatable {
        symbols::may_resize(from.kind)
    } else {
        // Sections that loaders read keep their size.
        from.kind == elf::SHT_SYMTAB.0 && has_lost_symbols
    };
    if from.size != to.size && !may_be_resized {
        return differs("sh_size", from.size, to.size);
    }
    // The address of a section that occupies memory may have changed.
    if from.addr != to.addr && !from.has_memory() {
        return differs("sh_addr", from.addr, to.addr);
    }
    check_place(check, pair, from, to, shift)
}

/// Returns the `sh_info` that a section must have.
fn expected_info(check: &Check<'_>, pair: Pair, maps: &[SymbolMap]) -> u64 {
    let Check { old, pairs, .. } = check;
    let from = old.sections[pair.old];
    let info = from.info.to_usize();
    let is_section = from.flags & elf::SHF_INFO_LINK.0 != 0 || from.has_relocations();
    let map = match elf::SectionType(from.kind) {
        elf::SHT_SYMTAB => map_of(maps, pair.old),
        elf::SHT_GROUP => map_of(maps, from.link.to_usize()),
        _ => None,
    };
    match (is_section, map) {
        (true, _) => pairs.new_of(info).unwrap_or(info).to_u64(),
        (false, Some(map)) if from.kind == elf::SHT_GROUP.0 => {
            map.new_of(info).unwrap_or(usize::MAX).to_u64()
        }
        (false, Some(map)) => map.first_global(info).to_u64(),
        (false, None) => info.to_u64(),
    }
}

/// Checks that a section lies where its segment loads it, or keeps its distance in the file.
fn check_place(
    check: &Check<'_>,
    pair: Pair,
    from: Section,
    to: Section,
    shift: u64,
) -> Result<(), StructureError> {
    let Check { old, new, .. } = check;
    let differs = |old, new| Err(StructureError::Section { index: pair.new, field: "sh_offset", old, new });
    let not_loaded = StructureError::SectionNotLoaded { index: pair.new, address: to.addr, size: to.size };
    let size = if from.has_bytes() { from.size } else { 0 };
    let loaded = |image: &Image<'_>, section: Section| {
        if section.is_loaded() { image.loads.offset_of(section.addr, size) } else { None }
    };
    // If the original loads other bytes at the section's address, the header says nothing about memory. Other checks
    // compare what segments load.
    let in_old = loaded(old, from).filter(|in_old| !from.has_bytes() || *in_old == from.offset);
    if in_old.is_some() {
        let load = new.loads.containing(to.addr, size).ok_or(not_loaded)?;
        let flags = old.loads.containing(from.addr, size).map_or(0, |load| load.segment.flags);
        let is_moved = from.addr != to.addr;
        if load.segment.flags != flags && (!is_moved || load.segment.flags & elf::PF_W.0 != 0) {
            return Err(segments::differs(load.index, "p_flags", flags.into(), load.segment.flags.into()));
        }
        if !from.has_bytes() {
            return check_empty_place(check, pair, from, to, shift);
        }
        return match loaded(new, to) {
            Some(in_new) if to.offset != in_new => differs(in_new, to.offset),
            Some(_) => Ok(()),
            None => Err(not_loaded),
        };
    }
    if from.has_memory() && old.loads.containing(from.addr, from.size).is_some() {
        new.loads.containing(to.addr, to.size).ok_or(not_loaded)?;
    }
    if from.has_bytes() {
        // Other checks compare the bytes. The format demands their alignment.
        let align = from.align.clamp(1, 0x1000);
        let was_aligned = from.offset.is_multiple_of(align);
        if was_aligned && !to.offset.is_multiple_of(align) {
            return differs(from.offset.next_multiple_of(align), to.offset);
        }
        return Ok(());
    }
    check_empty_place(check, pair, from, to, shift)
}

/// Checks the offset of a section without bytes in the file. The offset of `SHT_NOBITS` has no meaning: no reader uses it,
/// and linkers disagree about it. Another empty section must lie in the file, as `strip` and `objcopy` demand, if it did.
fn check_empty_place(
    check: &Check<'_>,
    pair: Pair,
    from: Section,
    to: Section,
    shift: u64,
) -> Result<(), StructureError> {
    let was_outside = from.offset > check.old.bytes.len().to_u64();
    if from.kind == elf::SHT_NOBITS.0 || was_outside || to.offset <= check.new.bytes.len().to_u64() {
        return Ok(());
    }
    let old = from.offset.wrapping_add(shift);
    Err(StructureError::Section { index: pair.new, field: "sh_offset", old, new: to.offset })
}

fn check_contents(check: &Check<'_>, pair: Pair, maps: &[SymbolMap]) -> Result<(), StructureError> {
    let Check { old, pairs, .. } = check;
    let from = old.sections[pair.old];
    let map = map_of(maps, from.link.to_usize()).filter(|map| !map.is_identity());
    match elf::SectionType(from.kind) {
        _ if pair.old == old.names => strings::check(check, pair),
        // Symbol tables were compared when their symbols were paired.
        elf::SHT_SYMTAB | elf::SHT_DYNSYM => Ok(()),
        elf::SHT_SYMTAB_SHNDX if old.is_relocatable => symbols::check_indexes(check, pair, maps),
        elf::SHT_DYNAMIC if !pairs.moves.is_empty() => dynamic::check(check, pair),
        elf::SHT_GROUP if !pairs.is_identity => groups::check_group(check, pair),
        kind => match (kind, map) {
            (SHT_LLVM_ADDRSIG, Some(map)) => groups::check_addrsig(check, pair, map),
            (elf::SHT_RELA | elf::SHT_REL, Some(map)) => relocations::check_symbols(check, pair, map),
            _ => check.same_bytes(pair),
        },
    }
}

impl Check<'_> {
    /// Checks that the bytes of a section are the same.
    pub(super) fn same_bytes(&self, pair: Pair) -> Result<(), StructureError> {
        let (old, new) = (self.old.contents(pair.old), self.new.contents(pair.new));
        if old == new {
            return Ok(());
        }
        let at = old.iter().zip(new).position(|(old, new)| old != new).unwrap_or(old.len().min(new.len()));
        let [old, new] = [old, new].map(|bytes| bytes.get(at).copied().unwrap_or(0));
        Err(StructureError::SectionByte { index: pair.new, offset: at.to_u64(), old, new })
    }
}

/// Returns the size of the program headers in bytes.
pub(super) fn segments_size(image: &Image<'_>) -> u64 {
    image.segments.len().to_u64() * SEGMENT
}

/// Checks that sections have kept their names.
pub(super) fn check_names(old: &Image<'_>, new: &Image<'_>, pairs: &Pairs) -> Result<(), StructureError> {
    // The names of many sections may be the same long string, so the time is bounded.
    let mut room = old.bytes.len().to_u64().saturating_mul(4);
    for pair in &pairs.pairs {
        let (from, to) = (old.name(pair.old), new.name(pair.new));
        let (name, size) = (old.sections[pair.old].name, from.len().to_u64());
        room = room.checked_sub(size).ok_or(StructureError::Unreadable {
            file: old.file,
            what: "names of sections",
            offset: name.into(),
            value: size,
        })?;
        if from != to {
            let new = new.sections[pair.new].name;
            return Err(StructureError::SectionName { index: pair.new, old: name, new });
        }
    }
    Ok(())
}
