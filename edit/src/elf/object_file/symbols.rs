//! The symbol table of an object: finds and adds section symbols, and removes the symbols of removed sections.

use cfipack_container::Error;
use cfipack_container::raw::elf::Headers;
use cfipack_format::widen::{ToU64, ToUsize};
use object::elf::{self, Sym64, SymbolSection};
use object::pod::bytes_of;
use object::read::elf::{SectionHeader as _, Sym as _};
use object::{Endianness, SectionIndex, U16, U32, U64};

use super::renumbering::Renumbering;
use crate::embed_error::EmbedError;

/// A symbol table with its changes.
#[derive(Debug)]
pub(super) struct Symbols<'a> {
    /// The section with the table.
    pub(super) table: usize,
    /// The section with the section indexes that are too large for the symbol table.
    pub(super) extended_table: Option<usize>,
    pub(super) renumbering: Renumbering,
    endian: Endianness,
    symbols: &'a [Sym64<Endianness>],
    extended: &'a [U32<Endianness>],
    /// The sections that get a new symbol, by old number.
    inserted: Vec<u32>,
}

impl<'a> Symbols<'a> {
    /// Reads the object's symbol table. Returns `None` if the object has no symbol table.
    pub(super) fn read(headers: &Headers<'a>) -> Result<Option<Self>, EmbedError> {
        let (endian, bytes) = (headers.endian, headers.bytes);
        let of_type = |kind| {
            let sections = headers.sections.enumerate();
            sections.filter(move |(_, header)| header.sh_type(endian) == kind).map(|(index, _)| index.0)
        };
        let mut tables = of_type(elf::SHT_SYMTAB);
        let Some(table) = tables.next() else { return Ok(None) };
        let header = headers.sections.section(SectionIndex(table)).map_err(|_| damaged(0, 0))?;
        let damaged = damaged(header.sh_offset(endian), header.sh_size(endian));
        if tables.next().is_some() {
            return Err(damaged);
        }
        let symbols: &[Sym64<_>] = header.data_as_array(endian, bytes).map_err(|_| damaged)?;
        let first_global = header.sh_info(endian);
        if first_global.to_usize() > symbols.len() || first_global == 0 && !symbols.is_empty() {
            return Err(damaged);
        }
        let extended_table = of_type(elf::SHT_SYMTAB_SHNDX).next();
        let mut extended: &[U32<_>] = &[];
        if let Some(index) = extended_table {
            let header = headers.sections.section(SectionIndex(index)).map_err(|_| damaged)?;
            extended = header.data_as_array(endian, bytes).map_err(|_| damaged)?;
            if extended.len() != symbols.len() {
                return Err(damaged);
            }
        }
        let renumbering = Renumbering { inserted_at: first_global, ..Renumbering::default() };
        let inserted = Vec::new();
        let this = Self { table, extended_table, renumbering, endian, symbols, extended, inserted };
        // A section that does not exist would become a new section.
        let sections = headers.sections.len() as u32;
        let is_damaged = (0..symbols.len()).any(|index| this.section(index) >= Some(sections));
        if is_damaged { Err(damaged) } else { Ok(Some(this)) }
    }

    /// Returns the section that defines a symbol.
    fn section(&self, index: usize) -> Option<u32> {
        let number = self.symbols[index].st_shndx(self.endian);
        let section = match number.index() {
            Some(section) => Some(section.into()),
            None if number == elf::SHN_XINDEX => self.extended.get(index).map(|word| word.get(self.endian)),
            None => None,
        };
        section.filter(|&section| section != 0)
    }

    /// Removes the symbols of removed sections.
    pub(super) fn remove(&mut self, sections: &Renumbering) -> Result<(), EmbedError> {
        for index in 0..self.symbols.len() {
            if self.section(index).is_none_or(|section| sections.number(section).is_some()) {
                continue;
            }
            let symbol = &self.symbols[index];
            if symbol.st_bind() != elf::STB_LOCAL {
                return Err(EmbedError::TableSymbol { value: index.to_u64() });
            }
            self.renumbering.removed.push(index as u32);
        }
        Ok(())
    }

    /// Returns the new numbers of section symbols. `sections` must be in ascending order. Missing symbols are inserted
    /// after the last local symbol. Call this once, after all removals.
    pub(super) fn of_sections(&mut self, sections: &[u32]) -> Vec<(u32, u32)> {
        let mut found = vec![None; sections.len()];
        for (index, symbol) in self.symbols.iter().enumerate() {
            let kind = (symbol.st_bind(), symbol.st_type());
            if kind != (elf::STB_LOCAL, elf::STT_SECTION) || symbol.st_value(self.endian) != 0 {
                continue;
            }
            let place = self.section(index).and_then(|section| sections.binary_search(&section).ok());
            if let Some(place) = place {
                found[place].get_or_insert(index as u32);
            }
        }
        let missing = sections.iter().zip(&found).filter(|(_, found)| found.is_none());
        self.inserted = missing.map(|(&section, _)| section).collect();
        self.renumbering.inserted = self.inserted.len() as u32;
        let mut next = self.renumbering.first_inserted();
        let mut numbers = Vec::with_capacity(sections.len());
        for (&section, found) in sections.iter().zip(found) {
            // No caller asks for the symbol of a removed section.
            let number = found.and_then(|index| self.renumbering.number(index)).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            numbers.push((section, number));
        }
        numbers
    }

    /// Returns whether all symbols keep their numbers.
    pub(super) fn is_unchanged(&self) -> bool {
        self.renumbering.is_identity(self.symbols.len()) && self.inserted.is_empty()
    }

    /// Returns the number of the first symbol that is not local.
    pub(super) fn first_global(&self) -> u32 {
        self.renumbering.first_inserted() + self.renumbering.inserted
    }

    /// Returns the highest offset of a symbol's name.
    pub(super) fn last_name(&self) -> u32 {
        self.symbols.iter().map(|symbol| symbol.st_name(self.endian)).max().unwrap_or_default()
    }

    /// Returns the bytes of the changed table, and of the table of extended indexes if the object has it.
    pub(super) fn write(&self, sections: &Renumbering) -> Result<(Vec<u8>, Option<Vec<u8>>), EmbedError> {
        let (mut table, mut extended) = (Vec::new(), Vec::new());
        for index in 0..=self.symbols.len() {
            if index == self.renumbering.inserted_at.to_usize() {
                for &section in &self.inserted {
                    let (symbol, word) = self.section_symbol(section, sections)?;
                    table.extend_from_slice(bytes_of(&symbol));
                    extended.extend_from_slice(bytes_of(&word));
                }
            }
            let is_removed = self.renumbering.removed.binary_search(&(index as u32)).is_ok();
            let Some(old) = self.symbols.get(index).filter(|_| !is_removed) else { continue };
            let (symbol, word) = self.renumbered(index, old, sections);
            table.extend_from_slice(bytes_of(&symbol));
            extended.extend_from_slice(bytes_of(&word));
        }
        Ok((table, self.extended_table.map(|_| extended)))
    }

    /// Returns a symbol with the new number of its section.
    fn renumbered(
        &self,
        index: usize,
        old: &Sym64<Endianness>,
        sections: &Renumbering,
    ) -> (Sym64<Endianness>, U32<Endianness>) {
        let (mut symbol, mut word) = (*old, self.extended.get(index).copied().unwrap_or_default());
        if let Some(section) = self.section(index).and_then(|section| sections.number(section)) {
            match old.st_shndx(self.endian) {
                elf::SHN_XINDEX => word = U32::new(self.endian, section),
                // No section of an object is inserted before others, so the number does not grow.
                _ => symbol.st_shndx = U16::new(self.endian, SymbolSection(section as u16)),
            }
        }
        (symbol, word)
    }

    /// Builds the symbol of a section.
    fn section_symbol(
        &self,
        section: u32,
        sections: &Renumbering,
    ) -> Result<(Sym64<Endianness>, U32<Endianness>), EmbedError> {
        let endian = self.endian;
        let section = sections.number(section).unwrap_or_default();
        let is_extended = section >= u32::from(elf::SHN_LORESERVE);
        if is_extended && self.extended_table.is_none() {
            return Err(EmbedError::ExtendedIndex { value: section.into() });
        }
        let number = if is_extended { elf::SHN_XINDEX } else { SymbolSection(section as u16) };
        let symbol = Sym64 {
            st_name: U32::new(endian, 0),
            st_info: elf::SymbolInfo::new(elf::STB_LOCAL, elf::STT_SECTION),
            st_other: elf::SymbolOther(0),
            st_shndx: U16::new(endian, number),
            st_value: U64::new(endian, 0),
            st_size: U64::new(endian, 0),
        };
        Ok((symbol, U32::new(endian, if is_extended { section } else { 0 })))
    }
}

fn damaged(offset: u64, value: u64) -> EmbedError {
    EmbedError::File(Error::Table { what: "symbols", offset, value })
}
