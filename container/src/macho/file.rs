//! A Mach-O file, and the sections that can be found in it.

use cfipack_cfi as cfi;
use cfipack_format::Address;
use cfipack_format::widen::ToU64;
use object::{Bytes, macho};

use super::compact_unwind::CompactUnwind;
use super::headers::Headers;
use super::labels::Labels;
use super::relocate;
use crate::error::Error;
use crate::kind::Kind;
use crate::relocation::Relocation;
use crate::section::{CallFrameSection, Location, Section};

/// Returns whether a file starts with the magic of Mach-O, of either width and byte order.
pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    let magics = [macho::MH_MAGIC, macho::MH_CIGAM, macho::MH_MAGIC_64, macho::MH_CIGAM_64];
    bytes.first_chunk().is_some_and(|magic| magics.contains(&u32::from_le_bytes(*magic)))
}

/// A Mach-O file. Its methods are only for Mach-O files, and everything else is in [`File`](crate::File).
/// Only the headers are parsed, and contents are read when you ask for them.
#[derive(Debug)]
pub struct MachO<'a> {
    headers: Headers<'a>,
}

impl<'a> MachO<'a> {
    /// Reads the header and the load commands.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { headers: Headers::parse(bytes)? })
    }

    /// Returns the headers as they lie in the file.
    pub fn headers(&self) -> &Headers<'a> {
        &self.headers
    }

    /// Returns the address of the file's Mach-O header in memory. Image offsets count from here. It is 0 in a
    /// relocatable object.
    pub fn image_base(&self) -> Address {
        self.headers.base
    }

    /// Returns `__eh_frame`, with relocations applied.
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

    /// Returns `__unwind_info`. Only linked files have it.
    pub fn unwind_info_section(&self) -> Result<Option<Section<'a>>, Error> {
        self.headers.find(b"__unwind_info").map(|index| self.headers.section(index)).transpose()
    }

    /// Returns `__compact_unwind` with its pointers resolved. Only relocatable objects have it.
    ///
    /// # Errors
    /// Fails if the section or its relocations are damaged.
    pub fn compact_unwind(&self) -> Result<Option<CompactUnwind<'a>>, Error> {
        self.headers.compact_unwind()
    }

    /// Reads the symbols that divide the sections of a relocatable object.
    pub fn labels(&self) -> Labels<'_, 'a> {
        Labels::new(&self.headers)
    }

    /// Returns the section that contains an address, or ends there if no other section starts there.
    pub(crate) fn locate(&self, address: Address) -> Option<Location<'a>> {
        self.headers.locate(address)
    }

    /// Returns a section's relocations in the same form as for ELF files.
    pub(crate) fn relocations(&self, section: usize) -> Result<Vec<Relocation>, Error> {
        self.headers.relocations(section)
    }

    /// Returns the sections with instructions that a compiler wrote.
    pub(crate) fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let found = (0..self.headers.sections.len()).filter(|&index| self.headers.sections[index].is_code());
        found.map(|index| self.headers.section(index)).collect()
    }

    /// Iterates over the symbols in sections of code: the name, the address, and the end of the section.
    pub(crate) fn code_symbols(&self) -> impl Iterator<Item = (&'a [u8], u64, u64)> {
        self.headers.symbols.iter().filter(|symbol| symbol.is_real).filter_map(|symbol| {
            let section = self.headers.sections.get(symbol.section?).filter(|section| section.is_code())?;
            Some((symbol.name, symbol.value, section.address.saturating_add(section.size)))
        })
    }

    /// Returns whether a section that is not empty ends at an address. The section need not be marked as code,
    /// because functions may also lie in other sections.
    pub fn is_end_of_section(&self, address: Address) -> bool {
        let mut sections = self.headers.sections.iter().filter(|section| section.size != 0);
        sections.any(|section| section.address.saturating_add(section.size) == address.0)
    }

    /// Returns the starts of functions, ascending. The linker writes them for debuggers (`LC_FUNCTION_STARTS`). A
    /// relocatable object has none.
    ///
    /// # Errors
    /// Fails if a delta in the list is damaged. The error has the offset in the file.
    pub fn function_starts(&self) -> Result<Vec<Address>, Error> {
        let Some((offset, list)) = self.headers.function_starts else { return Ok(Vec::new()) };
        let mut starts = Vec::new();
        let (mut address, mut rest) = (self.headers.base.0, Bytes(list));
        loop {
            let offset = offset + (list.len() - rest.len()).to_u64();
            let damaged = Error::Table { what: "LC_FUNCTION_STARTS", offset, value: list.len().to_u64() };
            if rest.is_empty() {
                return Ok(starts);
            }
            let delta = rest.read_uleb128().map_err(|()| damaged)?;
            // Zeros pad the end of the list.
            if delta == 0 {
                return Ok(starts);
            }
            address = address.checked_add(delta).ok_or(damaged)?;
            starts.push(Address(address));
        }
    }
}
