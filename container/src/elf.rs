//! ELF files of 64-bit architectures, relocatable and linked.

use std::borrow::Cow;

use cfipack_encoder::cfi;
use cfipack_format::{Address, Arch};
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable};
use object::{Endianness, SectionIndex};

use crate::relocate::RelocationIndex;
use crate::{
    CallFrameSection, Error, Kind, Layout, Location, Section, SectionName, compression, layout, relocate,
};

/// A parsed file: its headers, nothing of its contents.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) endian: Endianness,
    pub(crate) arch: Arch,
    pub(crate) kind: Kind,
    pub(crate) segments: &'a [ProgramHeader64<Endianness>],
    pub(crate) sections: SectionTable<'a, FileHeader64<Endianness>>,
    /// Which section holds the relocations of which, in relocatable objects.
    pub(crate) relocation_index: RelocationIndex,
    /// Where every section of a relocatable object lies; empty for linked files.
    addresses: Vec<u64>,
    /// The sections that have addresses of their own, by address.
    placed: Vec<usize>,
}

impl<'a> Elf<'a> {
    /// Reads the headers.
    pub(crate) fn parse(bytes: &'a [u8], layout: Layout) -> Result<Self, Error> {
        let header = file_header(bytes)?;
        let endian = header.endian().map_err(|_| unsupported("byte order", 5, bytes[5].into()))?;
        let machine = header.e_machine(endian);
        let arch = match (machine, endian) {
            (elf::EM_X86_64, Endianness::Little) => Arch::Amd64,
            (elf::EM_AARCH64, Endianness::Little) => Arch::Aarch64,
            (elf::EM_AARCH64, Endianness::Big) => Arch::Aarch64Be,
            (elf::EM_S390, Endianness::Big) => Arch::S390x,
            _ => return Err(unsupported("machine", 18, machine.0.into())),
        };
        let kind = match header.e_type(endian) {
            elf::ET_REL => Kind::Relocatable,
            elf::ET_EXEC | elf::ET_DYN => Kind::Linked,
            other => return Err(unsupported("file type", 16, other.0.into())),
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
        let mut elf = Self {
            bytes,
            endian,
            arch,
            kind,
            segments,
            sections,
            relocation_index: RelocationIndex::default(),
            addresses: Vec::new(),
            placed: Vec::new(),
        };
        elf.place(layout)?;
        Ok(elf)
    }

    /// Gives the sections their addresses.
    fn place(&mut self, layout: Layout) -> Result<(), Error> {
        if self.kind == Kind::Relocatable {
            self.relocation_index = RelocationIndex::read(self);
            if layout == Layout::Zero {
                self.addresses = vec![0; self.sections.len()];
                return Ok(());
            }
            self.addresses = layout::apart(self)?;
        }
        self.placed = (0..self.sections.len()).filter(|&index| layout::is_placed(self, index)).collect();
        let mut placed = core::mem::take(&mut self.placed);
        placed.sort_by_key(|&index| self.section_address(index));
        self.placed = placed;
        Ok(())
    }

    /// Where a section lies; 0 for one that does not exist.
    pub(crate) fn section_address(&self, index: usize) -> u64 {
        if self.kind == Kind::Relocatable {
            return self.addresses.get(index).copied().unwrap_or(0);
        }
        self.sections.section(SectionIndex(index)).map_or(0, |header| header.sh_addr(self.endian))
    }

    /// A section's name, or nothing if it has none that can be read.
    pub(crate) fn name(&self, header: &SectionHeader64<Endianness>) -> &'a [u8] {
        self.sections.section_name(self.endian, header).unwrap_or_default()
    }

    /// A section's name as errors carry it.
    pub(crate) fn name_for_error(&self, index: usize) -> SectionName {
        let name = self.sections.section(SectionIndex(index)).map(|header| self.name(header));
        SectionName::new(&String::from_utf8_lossy(name.unwrap_or_default()))
    }

    /// A section's bytes as they lie in the file; none for one that occupies no space there.
    pub(crate) fn section_bytes(&self, index: usize) -> Result<&'a [u8], Error> {
        let Ok(header) = self.sections.section(SectionIndex(index)) else { return Ok(&[]) };
        header.data(self.endian, self.bytes).map_err(|_| Error::SectionBounds {
            section: self.name_for_error(index),
            offset: header.sh_offset(self.endian),
            size: header.sh_size(self.endian),
        })
    }

    /// A section with its bytes decompressed and, in a relocatable object, relocated.
    fn section(
        &self,
        index: SectionIndex,
        header: &SectionHeader64<Endianness>,
    ) -> Result<Section<'a>, Error> {
        let mut bytes = if header.sh_flags(self.endian).contains(elf::SHF_COMPRESSED) {
            compression::decompress(self, index.0, header)?
        } else {
            Cow::Borrowed(self.section_bytes(index.0)?)
        };
        if self.kind == Kind::Relocatable {
            relocate::apply(self, index.0, &mut bytes)?;
        }
        Ok(Section {
            index: Some(index.0),
            name: String::from_utf8_lossy(self.name(header)),
            address: Address(self.section_address(index.0)),
            bytes,
        })
    }

    pub(crate) fn call_frame_sections(&self) -> Result<Vec<CallFrameSection<'a>>, Error> {
        let mut found = Vec::new();
        let mut room = self.bytes.len() as u64;
        for (index, header) in self.sections.enumerate() {
            let kind = match self.name(header) {
                b".eh_frame" if header.sh_flags(self.endian).contains(elf::SHF_ALLOC) => {
                    cfi::SectionKind::EhFrame
                }
                b".debug_frame" => cfi::SectionKind::DebugFrame,
                _ => continue,
            };
            if self.has_bytes(header) {
                self.claim(index, header, &mut room)?;
                found.push((kind, self.section(index, header)?));
            }
        }
        if self.sections.is_empty() {
            let section = crate::eh_frame_hdr::find_eh_frame(self)?;
            found.extend(section.map(|section| (cfi::SectionKind::EhFrame, section)));
        }
        let (text, data) = (self.text_base(), self.data_base());
        let with_bases = |(kind, section)| CallFrameSection { section, kind, arch: self.arch, text, data };
        Ok(found.into_iter().map(with_bases).collect())
    }

    pub(crate) fn sframe_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let mut found = Vec::new();
        let mut room = self.bytes.len() as u64;
        for (index, header) in self.sections.enumerate() {
            let is_sframe =
                header.sh_type(self.endian) == elf::SHT_GNU_SFRAME || self.name(header) == b".sframe";
            if is_sframe && self.has_bytes(header) {
                self.claim(index, header, &mut room)?;
                found.push(self.section(index, header)?);
            }
        }
        if self.sections.is_empty() {
            for segment in self.segments.iter().filter(|s| s.p_type(self.endian) == elf::PT_GNU_SFRAME) {
                found.push(self.segment(segment, ".sframe")?);
            }
        }
        Ok(found)
    }

    pub(crate) fn eh_frame_hdr_size(&self) -> Result<u64, Error> {
        let segment = self.segments.iter().find(|s| s.p_type(self.endian) == elf::PT_GNU_EH_FRAME);
        Ok(segment.map_or(0, |segment| segment.p_filesz(self.endian)))
    }

    pub(crate) fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let mut found = Vec::new();
        for (index, header) in self.sections.enumerate() {
            let flags = header.sh_flags(self.endian);
            if !flags.contains(elf::SHF_ALLOC | elf::SHF_EXECINSTR) || !self.has_bytes(header) {
                continue;
            }
            found.push(Section {
                index: Some(index.0),
                name: String::from_utf8_lossy(self.name(header)),
                address: Address(self.section_address(index.0)),
                bytes: Cow::Borrowed(self.section_bytes(index.0)?),
            });
        }
        if self.sections.is_empty() {
            for segment in self.loaded().filter(|s| s.p_flags(self.endian).contains(elf::PF_X)) {
                found.push(self.segment(segment, "")?);
            }
        }
        Ok(found)
    }

    pub(crate) fn locate(&self, address: Address) -> Option<Location<'a>> {
        let after = self.placed.partition_point(|&index| self.section_address(index) <= address.0);
        // Sections without bytes may share an address with the one that is meant.
        for &index in self.placed[..after].iter().rev() {
            let header = self.sections.section(SectionIndex(index)).ok()?;
            let offset = address.0 - self.section_address(index);
            let size = header.sh_size(self.endian);
            if offset < size || (offset == size && self.kind == Kind::Relocatable) {
                let name = String::from_utf8_lossy(self.name(header));
                return Some(Location { section: index, name, offset });
            }
            if size != 0 {
                break;
            }
        }
        None
    }

    /// The segments that are loaded.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = &'a ProgramHeader64<Endianness>> {
        let endian = self.endian;
        self.segments.iter().filter(move |segment| segment.p_type(endian) == elf::PT_LOAD)
    }

    /// A segment, under the name of what it holds.
    pub(crate) fn segment(
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

    /// Sections that are copied must not overlap, or a small file could ask for much memory.
    fn claim(
        &self,
        index: SectionIndex,
        header: &SectionHeader64<Endianness>,
        room: &mut u64,
    ) -> Result<(), Error> {
        let size = header.sh_size(self.endian);
        *room = room.checked_sub(size).ok_or_else(|| Error::SectionBounds {
            section: self.name_for_error(index.0),
            offset: header.sh_offset(self.endian),
            size,
        })?;
        Ok(())
    }

    fn has_bytes(&self, header: &SectionHeader64<Endianness>) -> bool {
        header.sh_type(self.endian) != elf::SHT_NOBITS
    }

    fn address_of(&self, name: &[u8]) -> Option<u64> {
        let (index, _) = self.sections.enumerate().find(|(_, header)| self.name(header) == name)?;
        Some(self.section_address(index.0))
    }

    fn text_base(&self) -> Address {
        Address(self.address_of(b".text").unwrap_or(0))
    }

    /// The GOT, as the dynamic section gives it: unwinders take it from there too.
    fn data_base(&self) -> Address {
        let dynamic = self.segments.iter().find_map(|s| s.dynamic(self.endian, self.bytes).ok().flatten());
        let entries = dynamic.unwrap_or_default().iter();
        let plt_got = entries.filter(|entry| entry.d_tag(self.endian) == elf::DT_PLTGOT);
        let got = plt_got.map(|entry| entry.d_val(self.endian)).next();
        Address(got.or_else(|| self.address_of(b".got")).unwrap_or(0))
    }
}

/// The header, of a file that claims to be 64-bit ELF.
fn file_header(bytes: &[u8]) -> Result<&FileHeader64<Endianness>, Error> {
    if !bytes.starts_with(&elf::ELFMAG) {
        let mut magic = [0; 4];
        let length = bytes.len().min(4);
        magic[..length].copy_from_slice(&bytes[..length]);
        return Err(Error::NotObject { magic });
    }
    if bytes.get(4) == Some(&elf::ELFCLASS32.0) {
        return Err(unsupported("32-bit class", 4, 1));
    }
    FileHeader64::parse(bytes).map_err(|_| Error::Table {
        what: "ELF header",
        offset: 0,
        value: bytes.len() as u64,
    })
}

fn unsupported(what: &'static str, offset: u64, value: u64) -> Error {
    Error::Unsupported { what, offset, value }
}
