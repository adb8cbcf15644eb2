//! The relocations of `__compact_unwind`.

use cfipack_container::raw::macho::{Headers, Target};
use cfipack_container::{Error, SectionName};
use cfipack_format::widen::ToUsize;
use object::macho;

/// The new table of relocations.
#[derive(Debug)]
pub(super) struct Relocations {
    /// The offset of each relocated field, and the entry in the form that the file has.
    list: Vec<(u32, [u8; Self::SIZE])>,
    /// True if the offsets ascend. Assemblers begin with the highest offset.
    is_rising: bool,
}

/// An 8-byte pointer (`r_length` 3), of type `X86_64_RELOC_UNSIGNED` or `ARM64_RELOC_UNSIGNED`, both 0.
const POINTER: u32 = 3 << 25;
/// The flag for a number of a symbol (`r_extern`). Without it, the number is the number of a section.
const SYMBOL: u32 = 1 << 27;

impl Relocations {
    /// The size of an entry in bytes.
    pub(super) const SIZE: usize = 8;

    /// Reads the relocations of a section. Without a section, there are none.
    ///
    /// # Errors
    /// Returns an error if the table is damaged, or relocates anything but pointers.
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

    /// Returns the bytes of the table, in the order of the old table.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut list = self.list.clone();
        list.sort_by_key(|(offset, _)| *offset);
        if !self.is_rising {
            list.reverse();
        }
        list.into_iter().flat_map(|(_, bytes)| bytes).collect()
    }
}

/// Builds an entry: `struct relocation_info` of `mach-o/reloc.h`.
fn entry(field: u32, target: u32) -> (u32, [u8; Relocations::SIZE]) {
    (field, (u64::from(field) | u64::from(target | POINTER) << 32).to_le_bytes())
}
