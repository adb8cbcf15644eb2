//! Section headers removed: what names sections by their index gets the new one.

use object::elf;

use super::plan::{Edit, Plan};
use super::source::Source;
use crate::EmbedError;

/// Bytes of a symbol, and the offsets of its section's index and its value.
const SYM_LEN: usize = 24;
const ST_SHNDX: usize = 6;
const ST_VALUE: usize = 8;

/// Removes the headers of some sections, which are given in ascending order.
pub(super) fn without(source: &Source<'_>, plan: &mut Plan, removed: &[usize]) -> Result<(), EmbedError> {
    let Some(&first) = removed.first() else { return Ok(()) };
    let new_index = |index: usize| index - removed.partition_point(|&other| other < index);
    let is_last = first + removed.len() == plan.sections.len();
    if !is_last {
        if let Some(at) = source.sections.iter().position(|section| section.is(elf::SHT_SYMTAB_SHNDX)) {
            let (section, offset) = (source.headers.name_for_error(at), source.sections[at].offset);
            return Err(EmbedError::Reference { section, offset, value: first as u64 });
        }
        for section in &mut plan.sections {
            section.link = new_index(section.link as usize) as u32;
            if section.has(elf::SHF_INFO_LINK) || section.is(elf::SHT_RELA) || section.is(elf::SHT_REL) {
                section.info = new_index(section.info as usize) as u32;
            }
        }
        plan.names = new_index(plan.names);
    }
    renumber_symbols(source, plan, removed)?;
    let mut index = 0..;
    plan.sections.retain(|_| index.next().is_none_or(|index| removed.binary_search(&index).is_err()));
    Ok(())
}

/// Gives symbols the new indices of their sections. Those of a removed one keep their value alone.
fn renumber_symbols(source: &Source<'_>, plan: &mut Plan, removed: &[usize]) -> Result<(), EmbedError> {
    source.check_apart(|section| section.is(elf::SHT_SYMTAB) || section.is(elf::SHT_DYNSYM))?;
    for table in source.sections.iter().filter(|one| one.is(elf::SHT_SYMTAB) || one.is(elf::SHT_DYNSYM)) {
        let old = source.bytes(table.range());
        if old.chunks_exact(SYM_LEN).all(|symbol| new_section(source, removed, symbol).is_none()) {
            continue;
        }
        let mut bytes = old.to_vec();
        for (new, old) in bytes.chunks_exact_mut(SYM_LEN).zip(old.chunks_exact(SYM_LEN)) {
            if let Some(section) = new_section(source, removed, old) {
                new[ST_SHNDX..][..2].copy_from_slice(&source.endian.put_u16(section));
            }
        }
        let edits = core::mem::take(&mut plan.edits).into_iter();
        let (inside, others): (Vec<_>, _) = edits.partition(|edit| table.range().contains(&edit.offset));
        plan.edits = others;
        for edit in inside {
            let at = (edit.offset - table.offset) as usize;
            bytes[at..at + edit.bytes.len()].copy_from_slice(&edit.bytes);
        }
        let what = format!("section indices in the symbols at {:#x}", table.offset);
        plan.edits.push(Edit { offset: table.offset, what, bytes });
    }
    Ok(())
}

/// The new index of a symbol's section, if it changes.
fn new_section(source: &Source<'_>, removed: &[usize], symbol: &[u8]) -> Option<u16> {
    let index = source.endian.u16(*symbol[ST_SHNDX..].first_chunk()?);
    let section = source.sections.get(usize::from(index)).filter(|_| index < elf::SHN_LORESERVE)?;
    let before = removed.partition_point(|&other| other < usize::from(index));
    if removed.get(before) != Some(&usize::from(index)) {
        return (before != 0).then(|| index - before as u16);
    }
    // Files of BOLT have symbols of a section after their last, which the table's then is.
    let value = source.endian.u64(*symbol[ST_VALUE..].first_chunk()?);
    let addresses = section.address..=section.address.saturating_add(section.size);
    addresses.contains(&value).then_some(elf::SHN_ABS.0)
}
