//! Looks up the symbols of relocations: where each symbol is defined.

use cfipack_format::widen::ToUsize;
use object::elf::{self, Sym64};
use object::read::elf::{SectionHeader as _, Sym as _};
use object::{Endianness, SectionIndex, U32};

use super::headers::Headers;

/// The sections with extended section indexes (`SHT_SYMTAB_SHNDX`), by their symbol tables. They are looked up only
/// once, because a file may have as many relocation sections as sections.
#[derive(Default, Debug)]
pub(super) struct ExtendedIndexes {
    /// Pairs of a symbol table and its section of indexes, sorted.
    pairs: Vec<(usize, usize)>,
}

/// A symbol table that relocation sections refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkedSymbols<'a> {
    symbols: &'a [Sym64<Endianness>],
    extended: &'a [U32<Endianness>],
}

/// The place where a symbol is defined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defined {
    /// The section. It is `None` for undefined and absolute symbols.
    pub section: Option<usize>,
    /// The offset in the section, or the absolute value. It is 0 for undefined symbols.
    pub value: u64,
}

impl ExtendedIndexes {
    /// Reads only the section headers.
    pub(super) fn read(headers: &Headers<'_>) -> Self {
        let endian = headers.endian;
        let is_extended =
            headers.sections.enumerate().filter(|(_, s)| s.sh_type(endian) == elf::SHT_SYMTAB_SHNDX);
        let mut pairs: Vec<_> =
            is_extended.map(|(index, s)| (s.sh_link(endian).to_usize(), index.0)).collect();
        pairs.sort_unstable();
        Self { pairs }
    }

    /// Returns the symbol table with a section index, or `None` if the section is not a symbol table or is damaged.
    pub(super) fn symbols<'a>(&self, headers: &Headers<'a>, table: usize) -> Option<LinkedSymbols<'a>> {
        let (endian, bytes) = (headers.endian, headers.bytes);
        let header = headers.sections.section(SectionIndex(table)).ok()?;
        if !matches!(header.sh_type(endian), elf::SHT_SYMTAB | elf::SHT_DYNSYM) {
            return None;
        }
        let symbols = header.data_as_array(endian, bytes).ok()?;
        // If there are several sections of indexes, the last one counts.
        let after = self.pairs.partition_point(|pair| pair.0 <= table);
        let extended = match after.checked_sub(1).map(|last| self.pairs[last]) {
            Some((of, index)) if of == table => {
                let header = headers.sections.section(SectionIndex(index)).ok()?;
                header.data_as_array(endian, bytes).ok()?
            }
            _ => &[],
        };
        Some(LinkedSymbols { symbols, extended })
    }
}

impl LinkedSymbols<'_> {
    /// Returns where a symbol is defined, or `None` if there is no such symbol.
    pub(super) fn defined(&self, endian: Endianness, index: usize) -> Option<Defined> {
        let symbol = self.symbols.get(index)?;
        let number = symbol.st_shndx(endian);
        let section = match number.index() {
            Some(section) => Some(usize::from(section)),
            None if number == elf::SHN_XINDEX => Some(self.extended.get(index)?.get(endian).to_usize()),
            None => None,
        };
        let section = section.filter(|&section| section != 0);
        let has_value = number == elf::SHN_ABS || section.is_some();
        Some(Defined { section, value: if has_value { symbol.st_value(endian) } else { 0 } })
    }
}
