//! Compares symbol tables: each symbol must be unchanged, or moved with its section.

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::Check;
use super::error::StructureError;
use super::groups::SHT_LLVM_ADDRSIG;
use super::image::Image;
use super::pairs::Pair;

/// The size of a symbol in bytes.
const SYMBOL: usize = 24;
/// The `st_info` of a section's symbol.
const SECTION_SYMBOL: u8 = elf::STT_SECTION.0;

/// Maps the symbols of the original to the symbols of the new file.
#[derive(Debug)]
pub(super) struct SymbolMap {
    /// The index of the symbol table in the original.
    pub(super) section: usize,
    /// The symbols of the original that were removed, in ascending order.
    removed: Vec<usize>,
    /// For each added symbol, how many of the kept symbols are before it. In ascending order.
    added: Vec<usize>,
}

impl SymbolMap {
    /// Returns whether each symbol has kept its index.
    pub(super) fn is_identity(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// Returns the index of a symbol in the new file, or `None` if the symbol was removed.
    pub(super) fn new_of(&self, old: usize) -> Option<usize> {
        let removed = self.removed.partition_point(|&index| index < old);
        if self.removed.get(removed) == Some(&old) {
            return None;
        }
        let kept = old - removed;
        Some(kept + self.added.partition_point(|&before| before <= kept))
    }

    /// Returns the index in the new file of the first symbol that is not local.
    pub(super) fn first_global(&self, old: usize) -> usize {
        let kept = old - self.removed.partition_point(|&index| index < old);
        kept + self.added.partition_point(|&before| before <= kept)
    }
}

/// Returns the map for the symbol table with an index in the original. `maps` comes from [`pair`].
pub(super) fn map_of(maps: &[SymbolMap], section: usize) -> Option<&SymbolMap> {
    maps.binary_search_by_key(&section, |map| map.section).ok().map(|index| &maps[index])
}

/// Returns whether a section of this kind in an object has an item for each symbol or section. Its size may change.
pub(super) fn may_resize(kind: u32) -> bool {
    [elf::SHT_SYMTAB.0, elf::SHT_SYMTAB_SHNDX.0, elf::SHT_GROUP.0, SHT_LLVM_ADDRSIG.0].contains(&kind)
}

/// Compares all symbol tables, and returns a map for each of them.
pub(super) fn pair(check: &Check<'_>) -> Result<Vec<SymbolMap>, StructureError> {
    let Check { old, pairs, .. } = check;
    let mut maps = Vec::new();
    let indexes = |image: &Image<'_>| -> Vec<usize> {
        let all = 0..image.sections.len();
        all.filter(|&index| image.sections[index].kind == elf::SHT_SYMTAB_SHNDX.0).collect()
    };
    let (old_indexes, new_indexes) = (indexes(old), indexes(check.new));
    let table_of_new = (1..check.new.sections.len()).find(|&index| check.new.is_table(index));
    for &pair in &pairs.pairs {
        let kind = elf::SectionType(old.sections[pair.old].kind);
        if kind != elf::SHT_SYMTAB && kind != elf::SHT_DYNSYM {
            continue;
        }
        let table = |image: &Image<'_>, index: usize, all: &[usize]| {
            // A file has at most a few sections of this kind.
            all.iter().take(8).copied().find(|&section| image.sections[section].link.to_usize() == index)
        };
        let old_table = table(old, pair.old, &old_indexes).map(|index| old.contents(index));
        let new_table = table(check.new, pair.new, &new_indexes).map(|index| check.new.contents(index));
        let tables = Tables {
            check,
            pair,
            old_indexes: old_table.unwrap_or_default(),
            new_indexes: new_table.unwrap_or_default(),
            new_table: table_of_new,
        };
        maps.push(tables.compare()?);
    }
    Ok(maps)
}

/// A symbol table in both files, with the section indexes that are too large for a symbol.
struct Tables<'c, 'a> {
    check: &'c Check<'c>,
    pair: Pair,
    old_indexes: &'a [u8],
    new_indexes: &'a [u8],
    /// The index of the new file's first `.sframe`.
    new_table: Option<usize>,
}

/// A symbol as plain numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    /// The index of the section, or a reserved number.
    section: u32,
    is_reserved: bool,
    value: u64,
    size: u64,
}

impl Symbol {
    fn read(image: &Image<'_>, table: &[u8], indexes: &[u8], index: usize) -> Self {
        let bytes = &table[index * SYMBOL..][..SYMBOL];
        let section = image.u16(bytes, 6);
        let is_large = section == elf::SHN_XINDEX.0 && !indexes.is_empty();
        Self {
            name: image.u32(bytes, 0),
            info: bytes[4],
            other: bytes[5],
            section: if is_large { image.u32(indexes, index * 4) } else { section.into() },
            is_reserved: !is_large && (section == 0 || section >= elf::SHN_LORESERVE),
            value: image.u64(bytes, 8),
            size: image.u64(bytes, 16),
        }
    }

    /// Returns the first field that differs, with both values.
    fn difference(&self, new: &Self) -> Option<(&'static str, u64, u64)> {
        let fields = [
            ("st_name", u64::from(self.name), u64::from(new.name)),
            ("st_info", self.info.into(), new.info.into()),
            ("st_other", self.other.into(), new.other.into()),
            ("st_shndx", self.section.into(), new.section.into()),
            ("st_shndx", self.is_reserved.into(), new.is_reserved.into()),
            ("st_value", self.value, new.value),
            ("st_size", self.size, new.size),
        ];
        fields.into_iter().find(|(_, old, new)| old != new)
    }
}

impl Tables<'_, '_> {
    /// Walks both symbol tables side by side.
    fn compare(&self) -> Result<SymbolMap, StructureError> {
        let Check { old, new, pairs } = self.check;
        let pair = self.pair;
        let mut map = SymbolMap { section: pair.old, removed: Vec::new(), added: Vec::new() };
        let (from, to) = (old.contents(pair.old), new.contents(pair.new));
        if pairs.is_identity && pairs.moves.is_empty() && from == to {
            return Ok(map);
        }
        let (count, new_count) = (from.len() / SYMBOL, to.len() / SYMBOL);
        if from.len() % SYMBOL != 0 || to.len() % SYMBOL != 0 {
            self.check.same_bytes(pair)?;
            return Ok(map);
        }
        let (mut index, mut new_index) = (0, 0);
        while index < count || new_index < new_count {
            let symbol = (index < count).then(|| Symbol::read(old, from, self.old_indexes, index));
            let there = (new_index < new_count).then(|| Symbol::read(new, to, self.new_indexes, new_index));
            let expected = symbol.and_then(|symbol| self.expected(symbol));
            let is_optional = symbol.is_some_and(|symbol| self.may_vanish(symbol));
            let others = symbol.map_or([None; 2], |symbol| self.without_section(symbol));
            if [expected].into_iter().chain(others).flatten().any(|wanted| Some(wanted) == there) {
                index += 1;
                new_index += 1;
            } else if is_optional {
                map.removed.push(index);
                index += 1;
            } else if there.is_some_and(|there| self.may_be_added(there, new_index)) {
                map.added.push(index - map.removed.len());
                new_index += 1;
            } else {
                let (field, old, new) = match (expected, there) {
                    (Some(expected), Some(there)) => expected.difference(&there).unwrap_or(("symbol", 0, 0)),
                    _ => ("number of symbols", count.to_u64(), new_count.to_u64()),
                };
                return Err(StructureError::Item { section: pair.new, index: new_index, field, old, new });
            }
        }
        Ok(map)
    }

    /// Returns the symbol that the new file must have, or `None` for a symbol of a table if the new file has no table.
    fn expected(&self, mut symbol: Symbol) -> Option<Symbol> {
        let Check { old, new, pairs } = self.check;
        let index = symbol.section.to_usize();
        if symbol.is_reserved || index >= old.sections.len() {
            return Some(symbol);
        }
        // A table that stays is the first table of the new file.
        let new_index = pairs.new_of(index).or(self.new_table)?;
        symbol.section = new_index as u32;
        let (from, to) = (old.sections[index], new.sections[new_index]);
        if from.is_loaded() && symbol.value.wrapping_sub(from.addr) <= from.size {
            symbol.value = symbol.value.wrapping_add(to.addr.wrapping_sub(from.addr));
        }
        Some(symbol)
    }

    /// Returns whether the section of a symbol is a table.
    fn is_of_table(&self, symbol: Symbol) -> bool {
        let section = symbol.section.to_usize();
        !symbol.is_reserved
            && section < self.check.old.sections.len()
            && self.check.old.belongs_to_table(section)
    }

    /// Returns whether a symbol may vanish with its table. In an object this holds for every symbol of the table. In a
    /// linked file it holds only for the section symbol at the table's start: other symbols may be in use.
    fn may_vanish(&self, symbol: Symbol) -> bool {
        let old = self.check.old;
        let is_of_section = || {
            let start = old.sections[symbol.section.to_usize()].addr;
            symbol.info == SECTION_SYMBOL && symbol.value == start && self.is_in_symtab()
        };
        self.is_of_table(symbol) && (old.is_relocatable || is_of_section())
    }

    /// Returns the symbols that a linked file may have in place of a symbol of a removed table. It is either an
    /// absolute symbol, or an unchanged symbol with a section index after the last section, as in files of BOLT.
    fn without_section(&self, symbol: Symbol) -> [Option<Symbol>; 2] {
        let Check { old, new, .. } = self.check;
        if old.is_relocatable || !self.is_in_symtab() || !self.is_of_table(symbol) {
            return [None; 2];
        }
        let absolute = Symbol { section: elf::SHN_ABS.0.into(), is_reserved: true, ..symbol };
        let is_after_last = symbol.section.to_usize() >= new.sections.len();
        [Some(absolute), is_after_last.then_some(symbol)]
    }

    fn is_in_symtab(&self) -> bool {
        self.check.old.sections[self.pair.old].kind == elf::SHT_SYMTAB.0
    }

    /// Returns whether a symbol may be new: a local section symbol, for the relocations of a table or for the table
    /// itself.
    fn may_be_added(&self, symbol: Symbol, index: usize) -> bool {
        let new = self.check.new;
        let is_local = index < new.sections[self.pair.new].info.to_usize();
        let is_of_section = symbol.name == 0 && symbol.info == SECTION_SYMBOL && symbol.other == 0;
        let section = symbol.section.to_usize();
        let is_there = !symbol.is_reserved && section < new.sections.len();
        let is_at_start = is_there && symbol.value == new.sections[section].addr && symbol.size == 0;
        let is_of_table = is_there && new.is_table(section);
        is_local && is_of_section && is_at_start && (new.is_relocatable || is_of_table)
    }
}

/// Checks the section indexes that do not fit into symbols. The indexes in use were compared with their symbols, and
/// all others must be zero.
pub(super) fn check_indexes(check: &Check<'_>, pair: Pair, maps: &[SymbolMap]) -> Result<(), StructureError> {
    let Check { old, new, .. } = check;
    let (from, to) = (old.contents(pair.old), new.contents(pair.new));
    let Some(map) = map_of(maps, old.sections[pair.old].link.to_usize()) else {
        return check.same_bytes(pair);
    };
    if map.is_identity() && check.pairs.is_identity {
        return check.same_bytes(pair);
    }
    let symbols = new.contents(new.sections[pair.new].link.to_usize());
    let differs = |index, old: usize, new: usize| {
        let (old, new) = (old.to_u64(), new.to_u64());
        Err(StructureError::Item { section: pair.new, index, field: "index of a section", old, new })
    };
    if to.len() / 4 != symbols.len() / SYMBOL || !to.len().is_multiple_of(4) {
        return differs(0, symbols.len() / SYMBOL, to.len() / 4);
    }
    let unused = (0..to.len() / 4).find(|&index| {
        let is_used = new.u16(symbols, index * SYMBOL + 6) == elf::SHN_XINDEX.0;
        !is_used && new.u32(to, index * 4) != 0
    });
    match unused {
        Some(index) if from.len() <= to.len() => differs(index, 0, new.u32(to, index * 4).to_usize()),
        _ => Ok(()),
    }
}
