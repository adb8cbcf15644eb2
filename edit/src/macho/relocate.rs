//! The relocations of `__compact_unwind`.

use cfipack_container::raw::macho::{Headers, Target};
use cfipack_container::{Error, SectionName};
use cfipack_format::widen::ToUsize;
use object::macho;

/// The table of relocations, as it is to be.
#[derive(Debug)]
pub(super) struct Relocations {
    /// Offsets of the fields, and the entries as on disk.
    list: Vec<(u32, [u8; Self::SIZE])>,
    /// True if the first offset is the lowest. Assemblers begin with the highest.
    is_rising: bool,
}

/// An 8-byte pointer (`r_length` 3), of type `X86_64_RELOC_UNSIGNED` or `ARM64_RELOC_UNSIGNED`, both 0.
const POINTER: u32 = 3 << 25;
/// The number is a symbol's, not a section's (`r_extern`).
const SYMBOL: u32 = 1 << 27;

impl Relocations {
    /// Bytes of an entry.
    pub(super) const SIZE: usize = 8;

    /// The relocations of a section; none without a section.
    ///
    /// # Errors
    /// The table is damaged, or has anything but pointers.
    pub(super) fn read(file: &Headers<'_>, section: Option<usize>) -> Result<Self, Error> {
        let mut list = Vec::new();
        let Some(section) = section else { return Ok(Self { list, is_rising: false }) };
        for fixup in file.fixups(section)? {
            let (offset, value) = (fixup.offset.into(), fixup.kind.0.into());
            if fixup.kind != macho::X86_64_RELOC_UNSIGNED || fixup.relative || fixup.width != 8 {
                let section = file.name_for_error(section);
                return Err(Error::RelocationType { section, offset, value });
            }
            let (number, kind) = match fixup.target {
                Target::Symbol(symbol) => (symbol as u32, SYMBOL),
                Target::Section(section) => (section.map_or(0, |section| section as u32 + 1), 0),
                Target::Address(address) => {
                    let section = SectionName::new("__compact_unwind");
                    return Err(Error::RelocationSymbol { section, offset, value: address.into() });
                }
            };
            list.push(entry(fixup.offset, number | kind));
        }
        let is_rising = list.windows(2).all(|pair| pair[0].0 <= pair[1].0) && list.len() > 1;
        Ok(Self { list, is_rising })
    }

    /// Removes the relocations of these fields, which must be sorted.
    pub(super) fn remove(&mut self, fields: &[usize]) {
        self.list.retain(|(offset, _)| fields.binary_search(&(*offset).to_usize()).is_err());
    }

    /// Adds a relocation for a field that leads to a symbol. The symbol's index must be below 2^24.
    pub(super) fn add_symbol(&mut self, field: u32, symbol: u32) {
        self.list.push(entry(field, symbol | SYMBOL));
    }

    /// Adds a relocation for a field that leads into a section. Sections count from 0.
    pub(super) fn add_section(&mut self, field: u32, section: usize) {
        self.list.push(entry(field, section as u32 + 1));
    }

    /// The table, in the order that it had.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut list = self.list.clone();
        list.sort_by_key(|(offset, _)| *offset);
        if !self.is_rising {
            list.reverse();
        }
        list.into_iter().flat_map(|(_, bytes)| bytes).collect()
    }
}

/// `struct relocation_info` of `mach-o/reloc.h`.
fn entry(field: u32, target: u32) -> (u32, [u8; Relocations::SIZE]) {
    (field, (u64::from(field) | u64::from(target | POINTER) << 32).to_le_bytes())
}
