//! Changes an object's sections and symbols, and renumbers everything that refers to them.

use std::borrow::Cow;

use cfipack_container::raw::elf::Headers;
use cfipack_container::{Error, SectionName};
use cfipack_format::widen::{ToU64, ToUsize};
use object::elf::{self, SectionHeader64};
use object::pod::bytes_of;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endian as _, Endianness, U32, U64};

use super::layout::{self, Part, PartKind};
use super::references::Referrer;
use super::renumbering::Renumbering;
use super::slot::Slot;
use super::symbols::Symbols;
use crate::embed_error::EmbedError;
use crate::rewrite::{Patch, Rewrite};

/// Bytes of a section header.
const HEADER_LEN: usize = size_of::<SectionHeader64<Endianness>>();

/// The changes of an object.
#[derive(Debug)]
pub(super) struct Edit<'h, 'a> {
    pub(super) headers: &'h Headers<'a>,
    /// The sections of the old file, and the added sections.
    pub(super) slots: Vec<Slot<'a>>,
    /// The slot with the names of sections, or 0 if there are no names.
    pub(super) names: usize,
    pub(super) symbols: Option<Symbols<'a>>,
    sections: Renumbering,
}

impl<'h, 'a> Edit<'h, 'a> {
    /// Reads the headers and the symbol table.
    pub(super) fn new(headers: &'h Headers<'a>) -> Result<Self, EmbedError> {
        let (endian, file) = (headers.endian, headers.file);
        if file.e_phnum(endian) != 0 {
            let value = file.e_phnum(endian).into();
            return Err(EmbedError::ObjectSegments { offset: file.e_phoff(endian), value });
        }
        let mut slots = Vec::with_capacity(headers.sections.len() + 2);
        for (index, header) in headers.sections.enumerate() {
            let has_bytes = headers.has_bytes(header) && header.sh_type(endian) != elf::SHT_NULL;
            let bytes = if has_bytes { headers.section_bytes(index.0)? } else { &[] };
            let start = header.sh_offset(endian).to_usize();
            slots.push(Slot {
                name: headers.name_for_error(index.0),
                header: *header,
                old: (!bytes.is_empty()).then(|| start..start + bytes.len()),
                new: None,
                is_removed: false,
            });
        }
        check_numbers(headers, &slots)?;
        let names = file.shstrndx(endian, headers.bytes).unwrap_or(0).to_usize();
        let symbols = Symbols::read(headers)?;
        let inserted_at = slots.len() as u32;
        let sections = Renumbering { inserted_at, ..Renumbering::default() };
        Ok(Self { headers, slots, names, symbols, sections })
    }

    /// Returns a section's bytes in the old file.
    pub(super) fn old_bytes(&self, slot: usize) -> &'a [u8] {
        self.slots[slot].old.clone().map_or(&[], |old| &self.headers.bytes[old])
    }

    /// Removes sections and the symbols in them. `removed` holds the slots in ascending order.
    pub(super) fn remove(&mut self, removed: Vec<usize>) -> Result<(), EmbedError> {
        for &slot in &removed {
            self.slots[slot].is_removed = true;
        }
        self.sections.removed = removed.into_iter().map(|slot| slot as u32).collect();
        match &mut self.symbols {
            Some(symbols) if !self.sections.removed.is_empty() => symbols.remove(&self.sections),
            _ => Ok(()),
        }
    }

    /// Returns the section's number in the new file.
    pub(super) fn number(&self, slot: usize) -> u32 {
        self.sections.number(slot as u32).unwrap_or_default()
    }

    /// Adds a section after all others, and returns its slot.
    pub(super) fn add(&mut self, name: &str, sh_name: u32) -> usize {
        let header = SectionHeader64 {
            sh_name: U32::new(self.headers.endian, sh_name),
            sh_type: U32::default(),
            sh_flags: U64::default(),
            sh_addr: U64::default(),
            sh_offset: U64::default(),
            sh_size: U64::default(),
            sh_link: U32::default(),
            sh_info: U32::default(),
            sh_addralign: U64::default(),
            sh_entsize: U64::default(),
        };
        let name = SectionName::new(name);
        self.slots.push(Slot { name, header, old: None, new: None, is_removed: false });
        self.slots.len() - 1
    }

    /// Replaces the contents of a section.
    pub(super) fn set(&mut self, slot: usize, contents: Rewrite<'a>) {
        let slot = &mut self.slots[slot];
        slot.header.sh_size.set(self.headers.endian, contents.len().to_u64());
        slot.new = Some(contents);
    }

    /// Replaces the contents of a section by new bytes.
    pub(super) fn set_bytes(&mut self, slot: usize, what: impl Into<Cow<'static, str>>, bytes: Vec<u8>) {
        let mut contents = Rewrite::new();
        contents.bytes(what, bytes);
        self.set(slot, contents);
    }

    /// Returns the changed file.
    pub(super) fn finish(mut self) -> Result<Rewrite<'a>, EmbedError> {
        let endian = self.headers.endian;
        self.renumber()?;
        let parts = layout::parts(self.headers, &self.slots)?;
        let count = self.slots.iter().filter(|slot| !slot.is_removed).count();
        let len = |part: &Part, slots: &[Slot<'_>]| match part.kind {
            PartKind::Section(slot) => slots[slot].len(),
            PartKind::SectionHeaders => count * HEADER_LEN,
            PartKind::FileHeader | PartKind::Unknown => part.old.len(),
        };
        let parts = layout::place(parts, &mut self.slots, endian, len);
        let mut patches = Vec::new();
        let table =
            parts.iter().find(|part| part.kind == PartKind::SectionHeaders).map_or(0, |part| part.start);
        self.count_sections(table.to_u64(), count as u32, &mut patches);
        Ok(self.write(parts).patch(patches))
    }

    /// Renumbers everything that refers to symbols or sections.
    fn renumber(&mut self) -> Result<(), EmbedError> {
        let same_sections = self.sections.is_identity(self.headers.sections.len());
        let same_symbols = self.symbols.as_ref().is_none_or(Symbols::is_unchanged);
        if same_sections && same_symbols {
            return Ok(());
        }
        for slot in 1..self.slots.len() {
            if !self.slots[slot].is_removed {
                self.renumber_section(slot, same_symbols)?;
            }
        }
        let Some(symbols) = &self.symbols else { return Ok(()) };
        let (table, extended_table, first_global) =
            (symbols.table, symbols.extended_table, symbols.first_global());
        let (bytes, extended) = symbols.write(&self.sections)?;
        self.slots[table].header.sh_info.set(self.headers.endian, first_global);
        self.set_bytes(table, "symbol table", bytes);
        if let Some((slot, bytes)) = extended_table.zip(extended) {
            self.set_bytes(slot, "extended section indexes of symbols", bytes);
        }
        Ok(())
    }

    /// Renumbers the links of a section, and its contents.
    fn renumber_section(&mut self, index: usize, same_symbols: bool) -> Result<(), EmbedError> {
        let (endian, bytes) = (self.headers.endian, self.old_bytes(index));
        let slot = &self.slots[index];
        let (name, kind, link) = (slot.name, slot.header.sh_type(endian), slot.header.sh_link(endian));
        let info = slot.header.sh_info(endian);
        let offset = slot.header.sh_offset(endian);
        let reference =
            |value: u32| EmbedError::TableReference { section: name, offset, value: value.into() };
        let section = |old: u32| self.sections.number(old).ok_or(reference(old));
        let new_link = section(link)?;
        let counts_symbols = self.symbols.as_ref().filter(|symbols| symbols.table == link.to_usize());
        let new_info = match counts_symbols {
            Some(symbols) if kind == elf::SHT_GROUP => {
                symbols.renumbering.number(info).ok_or(reference(info))?
            }
            _ if has_section_info(&slot.header, endian) => section(info)?,
            _ => info,
        };
        // A section that is only ordered after the symbol table has no symbol numbers.
        let is_ordered = slot.header.sh_flags(endian).contains(elf::SHF_LINK_ORDER);
        let referrer = Referrer { name, kind, offset, bytes };
        let contents = match counts_symbols.filter(|_| !is_ordered) {
            // New contents have new numbers already.
            _ if slot.new.is_some() => None,
            _ if kind == elf::SHT_GROUP => Some(referrer.group(endian, &self.sections)),
            Some(symbols) if !same_symbols => referrer.with_symbols(endian, &symbols.renumbering)?,
            _ => None,
        };
        let header = &mut self.slots[index].header;
        header.sh_link.set(endian, new_link);
        header.sh_info.set(endian, new_info);
        if let Some(contents) = contents.filter(|contents| contents != bytes) {
            self.set_bytes(index, format!("section {name}: renumbered"), contents);
        }
        Ok(())
    }

    /// Updates the fields of the ELF header and of section 0 that describe the section headers.
    fn count_sections(&mut self, table: u64, count: u32, patches: &mut Vec<Patch>) {
        let (endian, file) = (self.headers.endian, self.headers.file);
        let names = self.number(self.names);
        let first_extended = u32::from(elf::SHN_LORESERVE);
        let mut patch = |offset, what: &'static str, bytes: Vec<u8>| {
            if self.headers.bytes[offset..offset + bytes.len()] != bytes {
                patches.push(Patch { offset, what: what.into(), bytes });
            }
        };
        patch(0x28, "e_shoff", endian.write_u64(table).to_vec());
        let is_extended = count >= first_extended;
        let number = if is_extended { 0 } else { count as u16 };
        patch(0x3c, "e_shnum", endian.write_u16(number).to_vec());
        let is_extended_name = names >= first_extended;
        let number = if is_extended_name { elf::SHN_XINDEX.0 } else { names as u16 };
        patch(0x3e, "e_shstrndx", endian.write_u16(number).to_vec());
        let Some(first) = self.slots.first_mut() else { return };
        if is_extended || file.e_shnum(endian) == 0 {
            first.header.sh_size.set(endian, if is_extended { count.into() } else { 0 });
        }
        if is_extended_name || file.e_shstrndx(endian) == elf::SHN_XINDEX {
            first.header.sh_link.set(endian, if is_extended_name { names } else { 0 });
        }
    }

    /// Returns the file, without the changes of its header.
    fn write(self, parts: Vec<Part>) -> Rewrite<'a> {
        let mut slots = self.slots;
        let mut rewrite = Rewrite::new();
        let mut headers = Rewrite::new();
        append_headers(&mut headers, self.headers, &slots);
        for part in parts {
            let gap = part.start - rewrite.len();
            if gap == part.old_gap {
                rewrite.old(part.old.start - gap..part.old.start);
            } else {
                rewrite.zeros("padding", gap);
            }
            match part.kind {
                PartKind::Section(slot) => match slots[slot].new.take() {
                    Some(contents) => rewrite.append(contents, 0),
                    None => rewrite.old(part.old),
                },
                PartKind::SectionHeaders => rewrite.append(core::mem::take(&mut headers), 0),
                PartKind::FileHeader | PartKind::Unknown => rewrite.old(part.old),
            }
        }
        rewrite
    }
}

/// Refuses numbers of sections that do not exist. They would become numbers of new sections.
fn check_numbers(headers: &Headers<'_>, slots: &[Slot<'_>]) -> Result<(), EmbedError> {
    let endian = headers.endian;
    for (index, slot) in slots.iter().enumerate().skip(1) {
        let header = &slot.header;
        let (kind, info) = (header.sh_type(endian), header.sh_info(endian));
        let links = [header.sh_link(endian), if has_section_info(header, endian) { info } else { 0 }];
        let members = match (kind, &slot.old) {
            (elf::SHT_GROUP, Some(old)) => headers.bytes[old.clone()].get(4..).unwrap_or_default(),
            _ => &[],
        };
        let members = members.as_chunks().0.iter().map(|member| endian.read_u32(*member));
        if let Some(number) = members.chain(links).find(|&number| number.to_usize() >= slots.len()) {
            let offset = headers.file.e_shoff(endian) + (index * HEADER_LEN).to_u64();
            let what = "number of a section in a section";
            return Err(EmbedError::File(Error::Table { what, offset, value: number.into() }));
        }
    }
    Ok(())
}

/// Returns whether `sh_info` is the number of a section. In a symbol table or a group it is a symbol number, whatever
/// the flags say.
fn has_section_info(header: &SectionHeader64<Endianness>, endian: Endianness) -> bool {
    match header.sh_type(endian) {
        elf::SHT_REL | elf::SHT_RELA | elf::SHT_CREL => true,
        elf::SHT_SYMTAB | elf::SHT_DYNSYM | elf::SHT_GROUP => false,
        _ => header.sh_flags(endian).contains(elf::SHF_INFO_LINK),
    }
}

/// Appends the section headers. Headers that do not change in their old place are taken from the old file.
fn append_headers(rewrite: &mut Rewrite<'_>, headers: &Headers<'_>, slots: &[Slot<'_>]) {
    let table = headers.file.e_shoff(headers.endian).to_usize();
    let kept = slots.iter().filter(|slot| !slot.is_removed);
    for (number, slot) in kept.enumerate() {
        let new = bytes_of(&slot.header);
        let at = table + number * HEADER_LEN;
        let old = at..at + HEADER_LEN;
        if number < headers.sections.len() && headers.bytes[old.clone()] == *new {
            rewrite.old(old);
        } else {
            rewrite.bytes(format!("section header {number}: {}", slot.name), new.to_vec());
        }
    }
}
