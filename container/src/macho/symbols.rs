//! The symbol table.

use std::borrow::Cow;

use cfipack_format::widen::{ToU64, ToUsize};
use object::LittleEndian as LE;
use object::macho::{N_ALT_ENTRY, N_EXT, N_PEXT, N_SECT, N_STAB, N_TYPE, SymtabCommand};

use super::range::range;
use crate::error::Error;
use crate::names;

/// The symbols in `LC_SYMTAB`, of a file of either width.
#[derive(Clone, Copy, Debug, Default)]
pub struct SymbolTable<'a> {
    /// The offset of the entries in the file.
    offset: usize,
    entries: &'a [u8],
    strings: &'a [u8],
    /// The size of an entry in bytes: 16 in 64-bit files, 12 in 32-bit files.
    size: usize,
}

/// A symbol of the symbol table.
#[derive(Clone, Copy, Debug)]
pub struct Symbol<'a> {
    /// The name as it is in the file. A name of more than 4096 bytes is cut after 4097 bytes.
    pub name: &'a [u8],
    /// The section that defines the symbol, counted from 0.
    pub section: Option<usize>,
    /// The address, or 0 if the symbol is not defined here.
    pub value: u64,
    /// True if the symbol is not a debugger's (`N_STAB`).
    pub is_real: bool,
    /// True if a symbol of this name in another object is the same symbol: the symbol is external, and not private
    /// external. ld64.lld 23 keeps private external symbols apart even if they are weak definitions.
    pub is_shared: bool,
    /// The field `n_desc` of `mach-o/nlist.h`.
    description: u16,
}

impl<'a> Symbol<'a> {
    /// Returns the name as text. Bytes that are not UTF-8 are replaced. After 4096 bytes the name is cut, and `…` is
    /// added.
    pub fn text(&self) -> Cow<'a, str> {
        names::text(self.name)
    }

    /// Returns whether the symbol starts a subsection of its section. An alternative entry does not. Neither does an
    /// assembler label (`L…`, `l…`): ld64.lld takes it as a part of the code before it.
    pub fn starts_subsection(&self) -> bool {
        let is_label = self.name.starts_with(b"L") || self.name.starts_with(b"l");
        self.is_real && !is_label && !self.is_alternative()
    }

    /// Returns whether the symbol is an alternative entry (`N_ALT_ENTRY`): a part of the code before it.
    pub fn is_alternative(&self) -> bool {
        self.description & N_ALT_ENTRY.0 != 0
    }
}

impl<'a> SymbolTable<'a> {
    /// Reads the symbols that a load command refers to.
    pub(super) fn read(
        bytes: &'a [u8],
        command: &SymtabCommand<LE>,
        pointer_size: u8,
    ) -> Result<Self, Error> {
        let size = usize::from(pointer_size) + 8;
        let (offset, count) = (command.symoff.get(LE).into(), u64::from(command.nsyms.get(LE)));
        let entries = range(bytes, offset, count * size.to_u64());
        let entries = entries.ok_or(Error::Table { what: "symbol table", offset, value: count })?;
        let (offset, length) = (command.stroff.get(LE).into(), command.strsize.get(LE).into());
        let strings = range(bytes, offset, length);
        let strings = strings.ok_or(Error::Table { what: "string table", offset, value: length })?;
        Ok(Self { offset: command.symoff.get(LE).to_usize(), entries, strings, size })
    }

    /// Returns the offset in the file of the byte with the number of a symbol's section. The number counts from 1.
    pub fn section_offset(&self, index: usize) -> usize {
        self.offset + index * self.size + 5
    }

    /// Returns the offset in the file of a symbol's value.
    pub fn value_offset(&self, index: usize) -> usize {
        self.offset + index * self.size + 8
    }

    /// Returns the symbol with an index.
    pub fn get(&self, index: usize) -> Option<Symbol<'a>> {
        let start = index.checked_mul(self.size)?;
        self.symbol(self.entries.get(start..start.checked_add(self.size)?)?)
    }

    /// Iterates over all symbols in file order.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'a>> + use<'a> {
        let table = *self;
        self.entries.chunks_exact(self.size.max(1)).filter_map(move |entry| table.symbol(entry))
    }

    /// Reads an entry: name (u32), type (u8), section (u8), description (u16), value (u32 or u64).
    fn symbol(&self, entry: &'a [u8]) -> Option<Symbol<'a>> {
        let word = |at: usize| {
            let bytes = entry.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map(|bytes| u32::from_le_bytes(*bytes))
        };
        let [kind, section, low, middle, ..] = *entry.get(4..)? else { return None };
        let high = if self.size == 16 { word(12)? } else { 0 };
        let is_defined = kind & N_TYPE == N_SECT.0;
        Some(Symbol {
            name: names::at(self.strings, word(0)?),
            section: usize::from(section).checked_sub(1).filter(|_| is_defined),
            value: if is_defined { u64::from(word(8)?) | u64::from(high) << 32 } else { 0 },
            is_real: kind & N_STAB == 0,
            is_shared: kind & (N_EXT.0 | N_PEXT.0) == N_EXT.0,
            description: u16::from_le_bytes([low, middle]),
        })
    }
}
