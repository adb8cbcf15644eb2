//! Reads `__LD,__compact_unwind` of a relocatable object and resolves its pointers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU32;

use cfipack_format::compact_unwind::{Encoding, Entry};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, SectionOffset};

use super::headers::{Header, Headers};
use super::relocate::{Fixup, Target, field};
use super::symbols::Symbol;
use crate::error::Error;
use crate::names;
use crate::section::Section;

/// The section `__compact_unwind` with its rows, and the symbols that its pointers refer to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactUnwind<'a> {
    /// The section as it lies in the file, without relocations applied.
    pub section: Section<'a>,
    /// The rows in file order. An incomplete row at the end is dropped.
    pub rows: Vec<CompactUnwindRow>,
    /// The offsets of rows for no function of this file, in file order. These rows are not among [`rows`](Self::rows).
    /// The field for the function has no relocation, or leads to no section. Linkers ignore these rows or refuse the
    /// object.
    pub strays: Vec<SectionOffset>,
    /// The personalities that rows refer to, in the order of their first use. Rows count them from 1.
    pub personalities: Vec<Referent<'a>>,
    /// The targets of the relocated fields, ascending by offset.
    referents: Vec<(SectionOffset, Referent<'a>)>,
}

/// A row of `__compact_unwind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompactUnwindRow {
    /// The offset of the row in the section.
    pub offset: SectionOffset,
    /// The address of the code that the row describes.
    pub function: Address,
    /// The size of this code in bytes.
    pub length: u32,
    /// The compact encoding.
    pub encoding: Encoding,
    /// The number of the row's personality in [`CompactUnwind::personalities`], counted from 1.
    pub personality: Option<NonZeroU32>,
    /// The address of the language-specific data area.
    pub lsda: Option<Address>,
}

/// The target of a pointer, described in the same words as llvm-objdump 23 uses.
///
/// If the relocation is external, the target is its symbol plus an addend. Otherwise it is the last symbol at or
/// before the address, and of several symbols at the same address the first in the symbol table. If this symbol is in
/// another section, the target is the section itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Referent<'a> {
    /// The name of the symbol or section. Bytes that are not UTF-8 are replaced.
    pub name: Cow<'a, str>,
    /// The distance from the symbol or section in bytes.
    pub addend: u64,
    /// The address of the target, or `None` if the symbol is not defined in this file.
    pub address: Option<Address>,
}

impl<'a> CompactUnwind<'a> {
    /// Returns the target of the pointer at an offset of the section, or `None` if no relocation applies there.
    pub fn referent(&self, field: SectionOffset) -> Option<&Referent<'a>> {
        let found = self.referents.binary_search_by_key(&field, |referent| referent.0);
        found.ok().map(|i| &self.referents[i].1)
    }

    fn address(&self, field: SectionOffset) -> Option<Address> {
        self.referent(field)?.address
    }

    /// Returns the number of the personality in a field. A new personality gets the next number.
    fn personality(
        &mut self,
        field: SectionOffset,
        numbers: &mut HashMap<Referent<'a>, NonZeroU32>,
    ) -> Option<NonZeroU32> {
        let referent = self.referent(field)?.clone();
        let number = NonZeroU32::MIN.saturating_add(self.personalities.len() as u32);
        Some(*numbers.entry(referent).or_insert_with_key(|referent| {
            self.personalities.push(referent.clone());
            number
        }))
    }

    fn read_rows(&mut self, pointer_size: u8, is_located: impl Fn(Address) -> bool) {
        let size = Entry::size(pointer_size);
        let bytes = self.section.bytes.clone();
        let mut numbers = HashMap::new();
        for (i, row) in bytes.chunks_exact(size).enumerate() {
            let Some(entry) = Entry::read(row, pointer_size) else { continue };
            let at = |field: usize| SectionOffset(i * size + field);
            let Some(function) = self.address(at(Entry::FUNCTION_AT)).filter(|start| is_located(*start))
            else {
                self.strays.push(at(0));
                continue;
            };
            let lsda_at = at(Entry::lsda_at(pointer_size));
            let has_lsda = entry.lsda != 0 || self.referent(lsda_at).is_some();
            let row = CompactUnwindRow {
                offset: at(0),
                function,
                length: entry.length,
                encoding: entry.encoding,
                personality: self.personality(at(Entry::personality_at(pointer_size)), &mut numbers),
                lsda: has_lsda.then(|| self.address(lsda_at).unwrap_or(Address(entry.lsda))),
            };
            self.rows.push(row);
        }
    }
}

impl<'a> Headers<'a> {
    /// Reads `__compact_unwind`. Only relocatable objects have it.
    pub(super) fn compact_unwind(&self) -> Result<Option<CompactUnwind<'a>>, Error> {
        let Some(index) = self.find(b"__compact_unwind") else { return Ok(None) };
        let section = self.section(index)?;
        let names = self.symbols_by_address();
        let mut referents = Vec::new();
        for fixup in self.fixups(index)? {
            let referent = self.resolve(index, &section.bytes, &fixup, &names)?;
            referents.push((SectionOffset(fixup.offset.to_usize()), referent));
        }
        referents.sort_by_key(|referent| referent.0);
        let (rows, strays, personalities) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = CompactUnwind { section, rows, strays, personalities, referents };
        found.read_rows(self.arch.pointer_size(), self.is_located());
        Ok(Some(found))
    }

    /// Returns a function that tells whether an address lies in a section, or at its end. Sections of an object do not
    /// overlap.
    fn is_located(&self) -> impl Fn(Address) -> bool + use<> {
        let ends = |section: &Header<'_>| (section.address, section.address.saturating_add(section.size));
        let mut sections: Vec<_> = self.sections.iter().map(ends).collect();
        sections.sort_unstable();
        move |address| {
            let after = sections.partition_point(|section| section.0 <= address.0);
            after.checked_sub(1).is_some_and(|at| address.0 <= sections[at].1)
        }
    }

    /// Returns the symbols that are defined in this file, by address. If several symbols share an address, the first
    /// stays.
    fn symbols_by_address(&self) -> Vec<Symbol<'a>> {
        let mut symbols: Vec<_> = self.symbols.iter().collect();
        symbols.retain(|symbol| symbol.is_real && symbol.section.is_some());
        symbols.sort_by_key(|symbol| symbol.value);
        symbols.dedup_by_key(|symbol| symbol.value);
        symbols
    }

    fn resolve(
        &self,
        section: usize,
        bytes: &[u8],
        fixup: &Fixup,
        names: &[Symbol<'a>],
    ) -> Result<Referent<'a>, Error> {
        let stored = field(bytes, fixup).ok_or_else(|| self.bad_field(section, fixup))?;
        let section = match fixup.target {
            Target::Symbol(index) => {
                let symbol = self.symbols.get(index);
                let symbol = symbol.ok_or_else(|| self.missing_symbol(section, fixup, index))?;
                let name = names::text(symbol.name);
                let address = symbol.section.map(|_| Address(symbol.value.wrapping_add(stored)));
                return Ok(Referent { name, addend: stored, address });
            }
            Target::Section(section) => section,
            Target::Address(inside) => self.locate(Address(inside.into())).map(|place| place.section),
        };
        let nearest = names.partition_point(|symbol| symbol.value <= stored).checked_sub(1);
        let nearest = nearest.map(|i| names[i]).filter(|symbol| symbol.section == section);
        let header = section.and_then(|section| self.sections.get(section));
        let (name, start) = match (nearest, header) {
            (Some(symbol), _) => (symbol.name, symbol.value),
            (None, Some(header)) => (header.name, header.address),
            (None, None) => (&[][..], 0),
        };
        let (name, addend) = (names::text(name), stored.wrapping_sub(start));
        Ok(Referent { name, addend, address: Some(Address(stored)) })
    }
}
