//! Mach-O files, relocatable and linked: x86-64, i386, arm64 and arm64_32, all little endian.
//!
//! The sections of a relocatable object have addresses of their own that do not overlap, so no
//! [`Placement`](crate::Placement) is needed: where it speaks of "apart", these are meant.

mod compact_unwind;
mod edit;
mod headers;
mod kinds;
mod range;
mod relocate;
mod structure;
mod symbols;

use cfipack_cfi as cfi;
use cfipack_format::Address;
use object::macho;

pub use compact_unwind::{CompactUnwind, CompactUnwindRow, Referent};
pub use edit::{CompactUnwindEdit, CompactUnwindEditor};
pub(crate) use headers::MachO;
pub use structure::{MachODifference, check_compact_unwind_edit};

use crate::{CallFrameSection, Error, Kind, Section};

/// Whether a file starts as Mach-O does, of either width and byte order.
pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    let magics = [macho::MH_MAGIC, macho::MH_CIGAM, macho::MH_MAGIC_64, macho::MH_CIGAM_64];
    bytes.first_chunk().is_some_and(|magic| magics.contains(&u32::from_le_bytes(*magic)))
}

impl<'a> MachO<'a> {
    /// `__eh_frame`, relocated.
    pub(crate) fn call_frame_sections(&self) -> Result<Vec<CallFrameSection<'a>>, Error> {
        let Some(index) = self.find(b"__eh_frame") else { return Ok(Vec::new()) };
        let mut section = self.section(index)?;
        if self.kind == Kind::Relocatable {
            relocate::apply(self, index, &mut section.bytes)?;
        }
        let text = self.find(b"__text").map_or(0, |index| self.sections[index].address);
        let (text, data) = (Address(text), Address(0));
        let (kind, excluded) = (cfi::SectionKind::EhFrame, Vec::new());
        Ok(vec![CallFrameSection { section, kind, arch: self.arch, text, data, excluded }])
    }

    /// `__unwind_info`, which linked files have.
    pub(crate) fn unwind_info_section(&self) -> Result<Option<Section<'a>>, Error> {
        self.find(b"__unwind_info").map(|index| self.section(index)).transpose()
    }

    /// Sections of instructions that a compiler wrote.
    pub(crate) fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let found = (0..self.sections.len()).filter(|&index| self.sections[index].is_code());
        found.map(|index| self.section(index)).collect()
    }

    /// The symbols in sections of code, with their addresses and the ends of their sections.
    pub(crate) fn code_symbols(&self) -> impl Iterator<Item = (&'a [u8], u64, u64)> {
        self.symbols.iter().filter(|symbol| symbol.is_real).filter_map(|symbol| {
            let section = self.sections.get(symbol.section?).filter(|section| section.is_code())?;
            Some((symbol.name, symbol.value, section.address.saturating_add(section.size)))
        })
    }

    /// The functions' addresses as `LC_FUNCTION_STARTS` has them; none without that command.
    pub(crate) fn function_starts(&self) -> Result<Vec<Address>, Error> {
        let Some((offset, list)) = self.function_starts else { return Ok(Vec::new()) };
        let mut starts = Vec::new();
        let (mut address, mut rest) = (self.base.0, list);
        loop {
            let offset = offset + (list.len() - rest.len()) as u64;
            let damaged = Error::Table { what: "LC_FUNCTION_STARTS", offset, value: list.len() as u64 };
            if rest.is_empty() {
                return Ok(starts);
            }
            let delta = uleb128(&mut rest).ok_or(damaged)?;
            // Zeros pad the end.
            if delta == 0 {
                return Ok(starts);
            }
            address = address.checked_add(delta).ok_or(damaged)?;
            starts.push(Address(address));
        }
    }
}

fn uleb128(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
