//! A Mach-O file, and what is found in it.

use cfipack_cfi as cfi;
use cfipack_format::Address;
use cfipack_format::widen::ToU64;
use object::macho;

use super::compact_unwind::CompactUnwind;
use super::headers::Headers;
use super::relocate;
use crate::error::Error;
use crate::kind::Kind;
use crate::relocation::Relocation;
use crate::section::{CallFrameSection, Location, Section};

/// Returns whether a file starts as Mach-O does, of either width and byte order.
pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    let magics = [macho::MH_MAGIC, macho::MH_CIGAM, macho::MH_MAGIC_64, macho::MH_CIGAM_64];
    bytes.first_chunk().is_some_and(|magic| magics.contains(&u32::from_le_bytes(*magic)))
}

/// A Mach-O file, and the questions about files of this format alone. Parsed are its headers, nothing of its contents.
#[derive(Debug)]
pub struct MachO<'a> {
    headers: Headers<'a>,
}

impl<'a> MachO<'a> {
    /// Reads the header and the load commands.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { headers: Headers::parse(bytes)? })
    }

    /// The file's headers as they lie in it.
    pub fn headers(&self) -> &Headers<'a> {
        &self.headers
    }

    /// The address of the file's header in memory, from which image offsets count; 0 in a relocatable object.
    pub fn image_base(&self) -> Address {
        self.headers.base
    }

    /// `__eh_frame`, relocated.
    pub(crate) fn call_frame_sections(&self) -> Result<Vec<CallFrameSection<'a>>, Error> {
        let Some(index) = self.headers.find(b"__eh_frame") else { return Ok(Vec::new()) };
        let mut section = self.headers.section(index)?;
        if self.headers.kind == Kind::Relocatable {
            relocate::apply(&self.headers, index, &mut section.bytes)?;
        }
        let text = self.headers.find(b"__text").map_or(0, |index| self.headers.sections[index].address);
        let (text, data) = (Address(text), Address(0));
        let (kind, excluded) = (cfi::SectionKind::EhFrame, Vec::new());
        Ok(vec![CallFrameSection { section, kind, arch: self.headers.arch, text, data, excluded }])
    }

    /// `__unwind_info`, which linked files have.
    pub fn unwind_info_section(&self) -> Result<Option<Section<'a>>, Error> {
        self.headers.find(b"__unwind_info").map(|index| self.headers.section(index)).transpose()
    }

    /// `__compact_unwind`, which relocatable objects have, with its pointers resolved.
    pub fn compact_unwind(&self) -> Result<Option<CompactUnwind<'a>>, Error> {
        self.headers.compact_unwind()
    }

    /// The section that an address lies in, or that ends there if no other starts.
    pub(crate) fn locate(&self, address: Address) -> Option<Location<'a>> {
        self.headers.locate(address)
    }

    /// A section's relocations in the words of other formats.
    pub(crate) fn relocations(&self, section: usize) -> Result<Vec<Relocation>, Error> {
        self.headers.relocations(section)
    }

    /// Sections of instructions that a compiler wrote.
    pub(crate) fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let found = (0..self.headers.sections.len()).filter(|&index| self.headers.sections[index].is_code());
        found.map(|index| self.headers.section(index)).collect()
    }

    /// The symbols in sections of code, with their addresses and the ends of their sections.
    pub(crate) fn code_symbols(&self) -> impl Iterator<Item = (&'a [u8], u64, u64)> {
        self.headers.symbols.iter().filter(|symbol| symbol.is_real).filter_map(|symbol| {
            let section = self.headers.sections.get(symbol.section?).filter(|section| section.is_code())?;
            Some((symbol.name, symbol.value, section.address.saturating_add(section.size)))
        })
    }

    /// Returns whether a section that is not empty ends at an address, of code or not: functions may lie in sections
    /// that are not marked as code.
    pub fn is_end_of_section(&self, address: Address) -> bool {
        let mut sections = self.headers.sections.iter().filter(|section| section.size != 0);
        sections.any(|section| section.address.saturating_add(section.size) == address.0)
    }

    /// The starts of functions, as the linker noted them for debuggers (`LC_FUNCTION_STARTS`), rising. Nothing in
    /// relocatable objects.
    pub fn function_starts(&self) -> Result<Vec<Address>, Error> {
        let Some((offset, list)) = self.headers.function_starts else { return Ok(Vec::new()) };
        let mut starts = Vec::new();
        let (mut address, mut rest) = (self.headers.base.0, list);
        loop {
            let offset = offset + (list.len() - rest.len()).to_u64();
            let damaged = Error::Table { what: "LC_FUNCTION_STARTS", offset, value: list.len().to_u64() };
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
