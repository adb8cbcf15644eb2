//! Removes section headers and the symbols of removed sections. Updates the indexes of later sections.

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::plan::{Edit, Plan};
use super::source::Source;
use crate::embed_error::EmbedError;

/// The size of a symbol, and the offsets of its type, its section index and its value.
pub(super) const SYM_LEN: usize = 24;
const ST_INFO: usize = 4;
pub(super) const ST_SHNDX: usize = 6;
pub(super) const ST_VALUE: usize = 8;

/// The sizes of relocations with and without addends, and the offset of `r_info`. The high half of `r_info` is the
/// symbol's number.
pub(super) const RELA_LEN: usize = 24;
const REL_LEN: usize = 16;
pub(super) const R_INFO: usize = 8;

/// Updates symbols for the removal of some sections, which must be in ascending order. The section symbol of a removed
/// section goes. Other symbols in it become absolute.
pub(super) fn symbols(source: &Source<'_>, plan: &mut Plan, removed: &[usize]) -> Result<(), EmbedError> {
    let kinds = [elf::SHT_SYMTAB, elf::SHT_DYNSYM, elf::SHT_RELA, elf::SHT_REL];
    source.check_apart(|section| kinds.iter().any(|kind| section.is(*kind)))?;
    for (index, table) in source.sections.iter().enumerate() {
        if !table.is(elf::SHT_SYMTAB) && !table.is(elf::SHT_DYNSYM) {
            continue;
        }
        let old = source.bytes(table.range());
        let mut fates = old.chunks_exact(SYM_LEN).map(|symbol| Fate::after_removal(source, removed, symbol));
        if fates.all(|fate| fate == Fate::Stays) {
            continue;
        }
        let mut bytes = old.to_vec();
        let mut gone = Vec::new();
        let symbols = bytes.chunks_exact_mut(SYM_LEN).zip(old.chunks_exact(SYM_LEN));
        for (number, (new, old)) in symbols.enumerate() {
            match Fate::after_removal(source, removed, old) {
                Fate::Stays => {}
                Fate::Goes if table.is(elf::SHT_SYMTAB) => gone.push(number),
                // A loader reads `.dynsym`, so its size must stay, and an absolute symbol would not be an address.
                Fate::Goes | Fate::KeepsValue if table.is(elf::SHT_DYNSYM) => {
                    return Err(EmbedError::TableSymbol { value: number.to_u64() });
                }
                Fate::Goes | Fate::KeepsValue => put_section(source, new, elf::SHN_ABS.0),
                Fate::Moves(section) => put_section(source, new, section),
            }
        }
        let edits = core::mem::take(&mut plan.edits).into_iter();
        let (inside, others): (Vec<_>, _) = edits.partition(|edit| table.range().contains(&edit.offset));
        plan.edits = others;
        for edit in inside {
            let at = (edit.offset - table.offset).to_usize();
            bytes[at..at + edit.bytes.len()].copy_from_slice(&edit.bytes);
        }
        if !gone.is_empty() {
            remove_symbols(source, plan, index, &gone, &mut bytes)?;
        }
        let what = format!("section indices in the symbols at {:#x}", table.offset);
        plan.edits.push(Edit { offset: table.offset, what, bytes });
    }
    Ok(())
}

/// The fate of a symbol when sections are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Stays,
    /// The symbol's section gets this index.
    Moves(u16),
    /// The symbol belongs to a removed section, but does not stand for it. The symbol becomes absolute.
    KeepsValue,
    /// The symbol stands for a removed section.
    Goes,
}

impl Fate {
    fn after_removal(source: &Source<'_>, removed: &[usize], symbol: &[u8]) -> Self {
        let index = symbol[ST_SHNDX..].first_chunk().map_or(0, |&field| source.endian.u16(field));
        let section = source.sections.get(usize::from(index)).filter(|_| index < elf::SHN_LORESERVE);
        let Some(section) = section else { return Self::Stays };
        let before = removed.partition_point(|&other| other < usize::from(index));
        if removed.get(before) != Some(&usize::from(index)) {
            return if before == 0 { Self::Stays } else { Self::Moves(index - before as u16) };
        }
        // Files of BOLT have symbols with a section index after the last section. That index is the table's if a table
        // was added.
        let value = symbol[ST_VALUE..].first_chunk().map_or(0, |&field| source.endian.u64(field));
        let is_inside = value >= section.address && value - section.address <= section.size;
        let is_after_last = usize::from(index) >= source.sections.len() - removed.len();
        if is_after_last && !is_inside {
            return Self::Stays;
        }
        if symbol[ST_INFO] == elf::STT_SECTION.0 { Self::Goes } else { Self::KeepsValue }
    }
}

fn put_section(source: &Source<'_>, symbol: &mut [u8], section: u16) {
    symbol[ST_SHNDX..][..2].copy_from_slice(&source.endian.put_u16(section));
}

/// Removes symbols from the bytes of a symbol table. `gone` has their numbers in ascending order. Relocations that the
/// linker left in the file get the new numbers.
fn remove_symbols(
    source: &Source<'_>,
    plan: &mut Plan,
    table: usize,
    gone: &[usize],
    bytes: &mut Vec<u8>,
) -> Result<(), EmbedError> {
    let before = |number: usize| gone.partition_point(|&other| other < number);
    let kept = bytes.chunks(SYM_LEN).enumerate();
    let kept = kept.filter(|(number, _)| gone.binary_search(number).is_err()).map(|(_, symbol)| symbol);
    *bytes = kept.collect::<Vec<_>>().concat();
    let range = source.sections[table].range();
    plan.cleared.push(range.start + bytes.len().to_u64()..range.end);
    let header = &mut plan.sections[table];
    header.size = bytes.len().to_u64();
    header.info -= before(header.info.to_usize()) as u32;

    for (index, section) in source.sections.iter().enumerate() {
        // A removed section has no type.
        if section.link.to_usize() != table || plan.sections[index].is(elf::SHT_NULL) {
            continue;
        }
        let name = || source.headers.name_for_error(index);
        let len = match elf::SectionType(section.kind) {
            elf::SHT_RELA => RELA_LEN,
            elf::SHT_REL => REL_LEN,
            other => {
                let (offset, value) = (section.offset, other.0.into());
                return Err(EmbedError::SymbolNumbers { section: name(), offset, value });
            }
        };
        let mut relocations = source.bytes(section.range()).to_vec();
        for (number, relocation) in relocations.chunks_exact_mut(len).enumerate() {
            let info = relocation[R_INFO..].first_chunk().map_or(0, |&field| source.endian.u64(field));
            let symbol = (info >> 32).to_usize();
            if gone.binary_search(&symbol).is_ok() {
                let offset = section.offset + (number * len).to_u64();
                return Err(EmbedError::TableReference { section: name(), offset, value: symbol.to_u64() });
            }
            let info = info - (before(symbol).to_u64() << 32);
            relocation[R_INFO..][..8].copy_from_slice(&source.endian.put_u64(info));
        }
        let what = format!("numbers of symbols in the relocations at {:#x}", section.offset);
        plan.edits.push(Edit { offset: section.offset, what, bytes: relocations });
    }
    Ok(())
}

/// Removes the headers of some sections, which must be in ascending order.
pub(super) fn sections(source: &Source<'_>, plan: &mut Plan, removed: &[usize]) -> Result<(), EmbedError> {
    let Some(&first) = removed.first() else { return Ok(()) };
    let is_removed = |index: usize| removed.binary_search(&index).is_ok();
    let count = plan.sections.len();
    // A number without a section stays as it is, also when a table is put in.
    let new_index = |index: usize| {
        if index >= count { index } else { index - removed.partition_point(|&other| other < index) }
    };
    let is_last = first + removed.len() == plan.sections.len();
    let mut all = source.sections.iter();
    if let Some(at) = all.position(|section| section.is(elf::SHT_SYMTAB_SHNDX)).filter(|_| !is_last) {
        let (section, offset) = (source.headers.name_for_error(at), source.sections[at].offset);
        let value = elf::SHT_SYMTAB_SHNDX.0.into();
        return Err(EmbedError::SymbolNumbers { section, offset, value });
    }
    for (index, section) in plan.sections.iter_mut().enumerate().filter(|(index, _)| !is_removed(*index)) {
        let [link, info] = section.sections();
        if let Some(value) = [link, info].into_iter().find(|&other| is_removed(other)) {
            let (section, offset) = (source.headers.name_for_error(index), source.sections[index].offset);
            return Err(EmbedError::TableReference { section, offset, value: value.to_u64() });
        }
        section.link = new_index(link) as u32;
        if info != 0 {
            section.info = new_index(info) as u32;
        }
    }
    plan.names = new_index(plan.names);
    let mut index = 0..;
    plan.sections.retain(|_| index.next().is_none_or(|index| !is_removed(index)));
    Ok(())
}
