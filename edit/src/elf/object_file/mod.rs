//! Puts a `.sframe` with its relocations into a relocatable object, or removes it.

mod edit;
mod layout;
mod names;
mod references;
mod renumbering;
mod slot;
mod symbols;

use cfipack_container::Error;
use cfipack_container::raw::elf::Headers;
use cfipack_container::{File, Kind};
use cfipack_format::sframe::{Abi, Version};
use cfipack_format::widen::{ToU64, ToUsize};
use object::elf::{self, Rela64};
use object::pod::bytes_of;
use object::read::elf::SectionHeader as _;
use object::{Endianness, I64, U64};

use super::headers_of;
use crate::embed_error::EmbedError;
use crate::rewrite::Rewrite;
use edit::Edit;
use names::TableNames;

/// The place of a function's start in a table: a field that gets a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartRelocation {
    /// The field, in bytes from the start of the table.
    pub offset: u32,
    /// The index of the section that the function lies in.
    pub section: usize,
    /// The start of the function in that section, in bytes.
    pub addend: u64,
}

/// The offset of the version in a table.
const VERSION_AT: usize = 2;

const RELA_LEN: usize = size_of::<Rela64<Endianness>>();

/// Returns the relocatable ELF object with a `.sframe` of these bytes, and with relocations for the starts of its
/// functions. If the object has a table, the new table replaces it, and further tables are removed.
///
/// The relocations are as gas writes them: relative to the field (for example `R_X86_64_PC64` for version 3 and
/// `R_X86_64_PC32` for version 2), against the symbol of the section that the function lies in. `starts` must be in the
/// order of the table.
///
/// The table and its relocations take the places of the object's own, or become the last sections. So no other section
/// changes its index. If a section has no symbol yet, a symbol is inserted after the last local symbol, and everything
/// that refers to symbols by number is updated. The table is in no section group.
///
/// Functions of the table must not share rows. GNU `ld` (2.47) reserves as many bytes as the tables of its inputs have,
/// and then writes the rows of each function. If these are more bytes, `ld` overwrites the next section.
///
/// # Errors
/// Returns an [`EmbedError`] if the object cannot be changed safely.
pub fn embed_in_object<'a>(
    object: &File<'a>,
    table: &[u8],
    starts: &[StartRelocation],
) -> Result<Rewrite<'a>, EmbedError> {
    let headers = headers_of(object)?;
    match headers.kind {
        Kind::Relocatable => embed(headers, table, starts),
        Kind::Linked => Err(EmbedError::Linked),
    }
}

/// Returns the object with this table in the place of the object's own table, or at its end.
fn embed<'a>(
    headers: &Headers<'a>,
    table: &[u8],
    starts: &[StartRelocation],
) -> Result<Rewrite<'a>, EmbedError> {
    let mut edit = Edit::new(headers)?;
    check_header_zero(headers)?;
    names::check(&edit)?;
    let tables = tables(headers)?;
    let first = tables.first().copied();
    let flags = |slot: usize| edit.slots[slot].header.sh_flags(headers.endian);
    let kept = first.filter(|&slot| !flags(slot).contains(elf::SHF_GROUP));
    let holders = relocations_of(&edit, &tables);
    let kept_relocations = holders.iter().find(|(_, target)| Some(*target) == kept && !starts.is_empty());
    let kept_relocations = kept_relocations.map(|&(slot, _)| slot);
    let mut removed: Vec<_> = tables.into_iter().chain(holders.into_iter().map(|(slot, _)| slot)).collect();
    removed.retain(|slot| Some(*slot) != kept && Some(*slot) != kept_relocations);
    removed.sort_unstable();
    edit.remove(removed)?;
    let relocations = relocations(&mut edit, kept, table, starts)?;
    put(&mut edit, kept, kept_relocations, table, relocations)?;
    edit.finish()
}

/// Returns the object without its tables and their relocations, or `None` if it has no table.
pub(super) fn without_sframe<'a>(headers: &Headers<'a>) -> Result<Option<Rewrite<'a>>, EmbedError> {
    // Read nothing else first: an object without a table stays as it is, whatever else is wrong with it.
    let mut removed = tables(headers)?;
    if removed.is_empty() {
        return Ok(None);
    }
    let mut edit = Edit::new(headers)?;
    check_header_zero(headers)?;
    names::check(&edit)?;
    let holders = relocations_of(&edit, &removed);
    removed.extend(holders.into_iter().map(|(slot, _)| slot));
    removed.sort_unstable();
    edit.remove(removed)?;
    names::remove(&mut edit);
    edit.finish().map(Some)
}

/// Returns the slots of the tables. A tool that does not know tables may have written the type of ordinary bytes, or of
/// a section without bytes.
fn tables(headers: &Headers<'_>) -> Result<Vec<usize>, EmbedError> {
    let mut tables = Vec::new();
    // Section 0 stands for no section, whatever its header says.
    for (index, header) in headers.sections.enumerate().skip(1) {
        let kind = header.sh_type(headers.endian);
        if kind == elf::SHT_GNU_SFRAME || headers.name(header) == b".sframe" {
            if !matches!(kind, elf::SHT_GNU_SFRAME | elf::SHT_PROGBITS | elf::SHT_NOBITS) {
                let offset = header.sh_offset(headers.endian);
                return Err(EmbedError::TableType { offset, value: kind.0 });
            }
            tables.push(index.0);
        }
    }
    Ok(tables)
}

/// Returns the slots of the relocation sections for these sections, each with the slot of its target.
fn relocations_of(edit: &Edit<'_, '_>, targets: &[usize]) -> Vec<(usize, usize)> {
    let endian = edit.headers.endian;
    let kinds = [elf::SHT_REL, elf::SHT_RELA, elf::SHT_CREL];
    let sections = edit.headers.sections.enumerate();
    let holders = sections.filter(|(_, header)| kinds.contains(&header.sh_type(endian)));
    let holders = holders.map(|(index, header)| (index.0, header.sh_info(endian).to_usize()));
    holders.filter(|(_, target)| targets.binary_search(target).is_ok()).collect()
}

/// Returns the bytes of the relocations of `starts`, against the symbols of their sections, as gas writes them.
fn relocations(
    edit: &mut Edit<'_, '_>,
    table_slot: Option<usize>,
    table: &[u8],
    starts: &[StartRelocation],
) -> Result<Vec<u8>, EmbedError> {
    let headers = edit.headers;
    let mut sections: Vec<_> = starts.iter().map(|start| start.section as u32).collect();
    sections.sort_unstable();
    sections.dedup();
    let version = table.get(VERSION_AT).and_then(|&number| Version::from_number(number));
    let kind = version
        .zip(Abi::for_arch(headers.arch))
        .map(|(version, abi)| (version, abi.start_relocation(version)));
    let numbers = match &mut edit.symbols {
        Some(symbols) => symbols.of_sections(&sections),
        None if starts.is_empty() => Vec::new(),
        None => return Err(EmbedError::NoSymbolTable),
    };
    let mut bytes = Vec::with_capacity(starts.len() * RELA_LEN);
    for start in starts {
        let offset = u64::from(start.offset);
        let value = start.section.to_u64();
        let Some((version, kind)) = kind else { return Err(EmbedError::Start { offset, value }) };
        let end = offset + version.start_size().to_u64();
        let is_old = start.section != 0 && start.section < headers.sections.len();
        let is_old = is_old && Some(start.section) != table_slot;
        if end > table.len().to_u64() || !is_old || edit.slots[start.section].is_removed {
            return Err(EmbedError::Start { offset, value });
        }
        let number = numbers.partition_point(|&(section, _)| section.to_usize() < start.section);
        let info = u64::from(numbers[number].1) << 32 | u64::from(kind.number);
        let relocation = Rela64 {
            r_offset: U64::new(headers.endian, offset),
            r_info: U64::new(headers.endian, info),
            r_addend: I64::new(headers.endian, start.addend.cast_signed()),
        };
        bytes.extend_from_slice(bytes_of(&relocation));
    }
    Ok(bytes)
}

/// Puts the table and its relocations into their slots, or into new slots after all others.
fn put(
    edit: &mut Edit<'_, '_>,
    table_slot: Option<usize>,
    relocations_slot: Option<usize>,
    table: &[u8],
    relocations: Vec<u8>,
) -> Result<(), EmbedError> {
    let endian = edit.headers.endian;
    let has_relocations = !relocations.is_empty();
    let has_names = table_slot.is_some() && (relocations_slot.is_some() || !has_relocations);
    let names = if has_names { TableNames::default() } else { names::append(edit)? };
    let symbols = edit.symbols.as_ref().map_or(0, |symbols| symbols.table as u32);

    let table_slot = table_slot.unwrap_or_else(|| edit.add(".sframe", names.sframe));
    edit.slots[table_slot].set_kind(endian, elf::SHT_GNU_SFRAME, elf::SHF_ALLOC, 0);
    edit.set_bytes(table_slot, "section .sframe", table.to_vec());
    if has_relocations {
        let slot = relocations_slot.unwrap_or_else(|| edit.add(".rela.sframe", names.relocations));
        edit.slots[slot].set_kind(endian, elf::SHT_RELA, elf::SHF_INFO_LINK, RELA_LEN.to_u64());
        let header = &mut edit.slots[slot].header;
        header.sh_link.set(endian, symbols);
        header.sh_info.set(endian, table_slot as u32);
        edit.set_bytes(slot, "section .rela.sframe", relocations);
    }
    Ok(())
}

/// Refuses an object if its section 0 has a type. Section 0 must stand for no section (gABI, "Special Section
/// Indexes").
fn check_header_zero(headers: &Headers<'_>) -> Result<(), EmbedError> {
    let zero = headers.sections.iter().next().map_or(0, |header| header.sh_type(headers.endian).0);
    if zero == elf::SHT_NULL.0 {
        return Ok(());
    }
    let offset = headers.file.e_shoff.get(headers.endian);
    Err(Error::Unsupported { what: "type of section 0", offset, value: u64::from(zero), name: None }.into())
}
