//! The headers of an ELF file, and the bytes that they refer to.

use std::borrow::Cow;

use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Endian};
use object::elf::{self, FileHeader64, Machine, ProgramHeader64, SectionHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable};
use object::{Endianness, SectionIndex};

use super::machine;
use crate::error::{Error, SectionName};
use crate::kind::Kind;
use crate::names;
use crate::section::Section;

/// The headers of an ELF file.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    /// The whole file.
    pub bytes: &'a [u8],
    /// The byte order of the headers and data.
    pub endian: Endianness,
    /// The architecture.
    pub arch: Arch,
    /// Whether the file is relocatable or linked.
    pub kind: Kind,
    /// The ELF header.
    pub file: &'a FileHeader64<Endianness>,
    /// The program headers.
    pub segments: &'a [ProgramHeader64<Endianness>],
    /// The section headers.
    pub sections: SectionTable<'a, FileHeader64<Endianness>>,
}

impl<'a> Headers<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// Fails if the file is not a 64-bit ELF file, is of an unsupported machine or file type, or has damaged tables.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = file_header(bytes)?;
        let endian = header.endian().map_err(|_| unsupported("byte order", 5, bytes[5].into(), None))?;
        let machine = header.e_machine(endian);
        let arch = arch_of(machine, endian)
            .ok_or_else(|| unsupported("machine", 18, machine.0.into(), machine::name(machine)))?;
        let kind = match header.e_type(endian) {
            elf::ET_REL => Kind::Relocatable,
            elf::ET_EXEC | elf::ET_DYN => Kind::Linked,
            other => {
                let name = machine::file_type_name(other);
                return Err(unsupported("file type", 16, other.0.into(), name));
            }
        };
        let segments = header.program_headers(endian, bytes).map_err(|_| Error::Table {
            what: "program headers",
            offset: header.e_phoff(endian),
            value: header.e_phnum(endian).into(),
        })?;
        let sections = header.sections(endian, bytes).map_err(|_| Error::Table {
            what: "section headers",
            offset: header.e_shoff(endian),
            value: header.e_shnum(endian).into(),
        })?;
        Ok(Self { bytes, endian, arch, kind, file: header, segments, sections })
    }

    /// Returns a section's name. It is empty if it cannot be read, and cut after 4097 bytes.
    pub fn name(&self, header: &SectionHeader64<Endianness>) -> &'a [u8] {
        names::at(self.section_names().unwrap_or_default(), header.sh_name(self.endian))
    }

    /// Returns the string table with the names of sections, or `None` if it cannot be read.
    fn section_names(&self) -> Option<&'a [u8]> {
        let index = self.file.shstrndx(self.endian, self.bytes).ok()?;
        let section = self.sections.section(SectionIndex(index.to_usize())).ok()?;
        section.data(self.endian, self.bytes).ok()
    }

    /// Returns a section's name in the form that errors carry.
    pub fn name_for_error(&self, index: usize) -> SectionName {
        let name = self.sections.section(SectionIndex(index)).map(|header| self.name(header));
        SectionName::new(&String::from_utf8_lossy(name.unwrap_or_default()))
    }

    /// Returns a section's bytes as they lie in the file. The slice is empty for a section without bytes, such as
    /// `.bss`, and for an index without a section.
    pub fn section_bytes(&self, index: usize) -> Result<&'a [u8], Error> {
        let Ok(header) = self.sections.section(SectionIndex(index)) else { return Ok(&[]) };
        header.data(self.endian, self.bytes).map_err(|_| Error::SectionBounds {
            section: self.name_for_error(index),
            offset: header.sh_offset(self.endian),
            size: header.sh_size(self.endian),
        })
    }

    /// Returns whether a section has bytes in the file. For example, `.bss` has none.
    pub fn has_bytes(&self, header: &SectionHeader64<Endianness>) -> bool {
        header.sh_type(self.endian) != elf::SHT_NOBITS
    }

    /// Iterates over the segments that are loaded.
    pub(super) fn loaded(&self) -> impl Iterator<Item = &'a ProgramHeader64<Endianness>> {
        let endian = self.endian;
        self.segments.iter().filter(move |segment| segment.p_type(endian) == elf::PT_LOAD)
    }

    /// Returns a segment as a section with the given name.
    pub(super) fn segment(
        &self,
        segment: &ProgramHeader64<Endianness>,
        name: &'static str,
    ) -> Result<Section<'a>, Error> {
        let bytes = segment.data(self.endian, self.bytes).map_err(|()| Error::SectionBounds {
            section: SectionName::new(name),
            offset: segment.p_offset(self.endian),
            size: segment.p_filesz(self.endian),
        })?;
        let address = Address(segment.p_vaddr(self.endian));
        Ok(Section { index: None, name: name.into(), address, bytes: Cow::Borrowed(bytes) })
    }
}

/// Returns the architecture of a machine, if it is supported.
pub(crate) fn arch_of(machine: Machine, endian: Endianness) -> Option<Arch> {
    let endian = match endian {
        Endianness::Little => Endian::Little,
        Endianness::Big => Endian::Big,
    };
    Arch::of_elf64(machine.0, endian)
}

/// Reads the ELF header, or says why the file is not a 64-bit ELF file.
fn file_header(bytes: &[u8]) -> Result<&FileHeader64<Endianness>, Error> {
    if !bytes.starts_with(&elf::ELFMAG) {
        let mut magic = [0; 4];
        let length = bytes.len().min(4);
        magic[..length].copy_from_slice(&bytes[..length]);
        return Err(Error::NotObject { magic, length: length as u8 });
    }
    if bytes.get(4) == Some(&elf::ELFCLASS32.0) {
        let machine: Option<[u8; 2]> = bytes.get(18..).and_then(|rest| rest.first_chunk().copied());
        let is_big = bytes.get(5) == Some(&elf::ELFDATA2MSB.0);
        let number = if is_big { u16::from_be_bytes } else { u16::from_le_bytes };
        let machine = Machine(machine.map_or(0, number));
        return Err(unsupported("32-bit machine", 18, machine.0.into(), machine::name_in_32_bits(machine)));
    }
    FileHeader64::parse(bytes).map_err(|_| Error::Table {
        what: "ELF header",
        offset: 0,
        value: bytes.len().to_u64(),
    })
}

fn unsupported(what: &'static str, offset: u64, value: u64, name: Option<&'static str>) -> Error {
    Error::Unsupported { what, offset, value, name }
}
