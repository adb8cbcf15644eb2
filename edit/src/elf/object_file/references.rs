//! Renumbers symbols and sections in the contents of sections.

use cfipack_container::{Error, SectionName};
use cfipack_format::widen::ToU64;
use object::elf::{self, Rel64, Rela64, SectionType};
use object::{Bytes, Endian as _, Endianness};

use super::renumbering::Renumbering;
use crate::embed_error::EmbedError;

/// `SHT_LLVM_ADDRSIG`: numbers of symbols in ULEB128.
const ADDRSIG: SectionType = SectionType(0x6fff_4c03);
/// `SHT_LLVM_CALL_GRAPH_PROFILE` before LLVM 13: the numbers of two symbols (4 bytes each) and a weight (8).
const OLD_CALL_GRAPH_PROFILE: SectionType = SectionType(0x6fff_4c02);
/// The section type for weights since LLVM 13. Relocations give the symbols.
const CALL_GRAPH_PROFILE: SectionType = SectionType(0x6fff_4c09);

/// A section that may have to change, because it refers to symbols or sections by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Referrer<'a> {
    pub(super) name: SectionName,
    pub(super) kind: SectionType,
    /// The offset in the file.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

impl Referrer<'_> {
    /// Returns the contents with new symbol numbers, for a section with the symbol table as its `sh_link`. Returns
    /// `None` if the contents have no symbol numbers.
    pub(super) fn with_symbols(
        &self,
        endian: Endianness,
        symbols: &Renumbering,
    ) -> Result<Option<Vec<u8>>, EmbedError> {
        match self.kind {
            elf::SHT_RELA => self.relocations(endian, symbols, size_of::<Rela64<Endianness>>()).map(Some),
            elf::SHT_REL => self.relocations(endian, symbols, size_of::<Rel64<Endianness>>()).map(Some),
            OLD_CALL_GRAPH_PROFILE => self.profile(endian, symbols).map(Some),
            ADDRSIG => self.address_significant(symbols).map(Some),
            CALL_GRAPH_PROFILE | elf::SHT_GROUP | elf::SHT_SYMTAB_SHNDX => Ok(None),
            kind => {
                let Self { name, offset, .. } = *self;
                Err(EmbedError::SymbolNumbers { section: name, offset, value: kind.0.into() })
            }
        }
    }

    /// Renumbers relocations of `size` bytes. The upper half of `r_info`, which follows `r_offset`, is the symbol.
    fn relocations(
        &self,
        endian: Endianness,
        symbols: &Renumbering,
        size: usize,
    ) -> Result<Vec<u8>, EmbedError> {
        let mut bytes = self.bytes.to_vec();
        for (i, record) in bytes.chunks_exact_mut(size).enumerate() {
            let Some(field) = record[8..].first_chunk_mut() else { continue };
            let info = endian.read_u64(*field);
            let symbol = self.number(symbols, (info >> 32) as u32, i * size)?;
            *field = endian.write_u64(u64::from(symbol) << 32 | info & 0xffff_ffff);
        }
        Ok(bytes)
    }

    fn profile(&self, endian: Endianness, symbols: &Renumbering) -> Result<Vec<u8>, EmbedError> {
        let mut bytes = self.bytes.to_vec();
        for (i, record) in bytes.chunks_exact_mut(16).enumerate() {
            for (j, field) in record[..8].as_chunks_mut().0.iter_mut().enumerate() {
                let symbol = self.number(symbols, endian.read_u32(*field), i * 16 + j * 4)?;
                *field = endian.write_u32(symbol);
            }
        }
        Ok(bytes)
    }

    /// Renumbers the symbols that must not be folded. Removed symbols leave the list.
    fn address_significant(&self, symbols: &Renumbering) -> Result<Vec<u8>, EmbedError> {
        let mut new = Vec::with_capacity(self.bytes.len());
        let mut rest = Bytes(self.bytes);
        while let Some(first) = rest.0.first() {
            let damaged = self.damaged(self.bytes.len() - rest.len(), u64::from(*first));
            let old = rest.read_uleb128().map_err(|()| damaged)?;
            let old = u32::try_from(old).map_err(|_| damaged)?;
            if let Some(symbol) = symbols.number(old) {
                put_uleb128(&mut new, symbol);
            }
        }
        Ok(new)
    }

    /// Returns the new numbers of the sections in a group, after a word with flags. Removed sections leave the group.
    pub(super) fn group(&self, endian: Endianness, sections: &Renumbering) -> Vec<u8> {
        let Some((flags, members)) = self.bytes.split_first_chunk::<4>() else { return Vec::new() };
        let mut new = flags.to_vec();
        for member in members.as_chunks().0 {
            if let Some(section) = sections.number(endian.read_u32(*member)) {
                new.extend_from_slice(&endian.write_u32(section));
            }
        }
        new
    }

    fn number(&self, symbols: &Renumbering, old: u32, at: usize) -> Result<u32, EmbedError> {
        symbols.number(old).ok_or(EmbedError::TableReference {
            section: self.name,
            offset: self.offset + at.to_u64(),
            value: old.into(),
        })
    }

    fn damaged(&self, at: usize, value: u64) -> EmbedError {
        let offset = self.offset + at.to_u64();
        EmbedError::File(Error::Table { what: "list of symbols", offset, value })
    }
}

fn put_uleb128(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
