//! Compares relocations. In an object they must refer to the same symbols, and in a linked file to no moved section.

use object::elf;

use super::error::StructureError;
use super::image::Image;
use super::loads::Memory;
use super::pairs::Pair;
use super::symbols::SymbolMap;
use super::{Check, check_fields};

/// Compares the relocations of an object after its symbols got other indexes.
pub(super) fn check_symbols(check: &Check<'_>, pair: Pair, map: &SymbolMap) -> Result<(), StructureError> {
    let Check { old, new, .. } = check;
    let entry = if old.sections[pair.old].kind == elf::SHT_RELA.0 { 24 } else { 16 };
    let (from, to) = (old.contents(pair.old), new.contents(pair.new));
    let whole = from.len() / entry * entry;
    if from[whole..] != to[whole..] {
        return check.same_bytes(pair);
    }
    for (index, (a, b)) in from.chunks_exact(entry).zip(to.chunks_exact(entry)).enumerate() {
        let (info, new_info) = (old.u64(a, 8), new.u64(b, 8));
        let symbol = map.new_of((info >> 32) as usize).unwrap_or(u32::MAX as usize) as u64;
        let fields = [
            ("r_offset", old.u64(a, 0), new.u64(b, 0)),
            ("r_info", symbol << 32 | info & 0xffff_ffff, new_info),
            ("r_addend", old.u64(a, 16), new.u64(b, 16)),
        ];
        let section = pair.new;
        check_fields(&fields, |field, old, new| StructureError::Item { section, index, field, old, new })?;
    }
    Ok(())
}

/// Checks that no dynamic relocation of the original changes a moved section, or computes an address in it.
pub(super) fn check_moves(check: &Check<'_>) -> Result<(), StructureError> {
    let Check { old, pairs, .. } = check;
    if pairs.moves.is_empty() {
        return Ok(());
    }
    for (section, header) in old.sections.iter().enumerate().filter(|(_, header)| header.is_loaded()) {
        match elf::SectionType(header.kind) {
            elf::SHT_RELA => check_rela(check, section)?,
            elf::SHT_RELR => check_relr(check, section)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_rela(check: &Check<'_>, section: usize) -> Result<(), StructureError> {
    let old = check.old;
    let relative = relative_types(old)?;
    for (index, entry) in old.contents(section).chunks_exact(24).enumerate() {
        let offset = old.u64(entry, 0);
        let is_relative = relative.contains(&(old.u64(entry, 8) as u32));
        let target = if is_relative { old.u64(entry, 16) } else { offset };
        stays(check, section, index, &[offset, target])?;
    }
    Ok(())
}

/// Returns the types of relocations that have an address as addend: `R_*_RELATIVE` and `R_*_IRELATIVE`.
fn relative_types(old: &Image<'_>) -> Result<[u32; 2], StructureError> {
    Ok(match elf::Machine(old.machine) {
        elf::EM_X86_64 => [elf::R_X86_64_RELATIVE.0, elf::R_X86_64_IRELATIVE.0],
        elf::EM_AARCH64 => [elf::R_AARCH64_RELATIVE.0, elf::R_AARCH64_IRELATIVE.0],
        elf::EM_S390 => [elf::R_390_RELATIVE.0, elf::R_390_IRELATIVE.0],
        machine => {
            let value = machine.0.into();
            return Err(StructureError::Unreadable { file: old.file, what: "machine", offset: 18, value });
        }
    })
}

/// Checks `SHT_RELR`, as the generic ABI defines it: a word is an address, or a bitmap for the 63 words that follow.
fn check_relr(check: &Check<'_>, section: usize) -> Result<(), StructureError> {
    let old = check.old;
    let mut next = 0_u64;
    for (index, entry) in old.contents(section).chunks_exact(8).enumerate() {
        let word = old.u64(entry, 0);
        if word & 1 == 0 {
            stays(check, section, index, &[word, value_at(old, word)])?;
            next = word.wrapping_add(8);
            continue;
        }
        for bit in (1..64).filter(|bit| word >> bit & 1 != 0) {
            let address = next.wrapping_add(8 * (bit - 1));
            stays(check, section, index, &[address, value_at(old, address)])?;
        }
        next = next.wrapping_add(8 * 63);
    }
    Ok(())
}

/// Returns the number at an address of the original, or 0 if there are no bytes.
fn value_at(old: &Image<'_>, address: u64) -> u64 {
    match old.loads.at(address) {
        Memory::Bytes(offset, length) if length >= 8 => old.u64(old.bytes, offset),
        _ => 0,
    }
}

/// Checks that addresses lie in no moved section.
fn stays(check: &Check<'_>, section: usize, index: usize, addresses: &[u64]) -> Result<(), StructureError> {
    match addresses.iter().find(|&&address| check.pairs.move_of(address).is_some()) {
        Some(&address) => Err(StructureError::Refers { section, index, address }),
        None => Ok(()),
    }
}
