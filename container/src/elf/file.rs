//! An ELF file, and the sections that can be found in it.

use std::borrow::Cow;

use cfipack_format::Address;
use object::elf::{self, SectionHeader64};
use object::read::elf::{ProgramHeader as _, SectionHeader as _};
use object::{Endianness, SectionIndex};

use super::call_frames::ZDEBUG_FRAME;
use super::compression;
use super::eh_frame_hdr::{EhFrameHdr, FdeIndex};
use super::headers::Headers;
use super::placement::{Addresses, Placement};
use super::relocate::RelocationIndex;
use super::room::Room;
use crate::error::Error;
use crate::kind::Kind;
use crate::names;
use crate::relocation::Relocation;
use crate::section::{Location, Section};

/// An ELF file. Its methods are only for ELF files, and everything else is in [`File`](crate::File). Only the
/// headers are parsed, and contents are read when you ask for them.
#[derive(Debug)]
pub struct Elf<'a> {
    pub(super) headers: Headers<'a>,
    /// The relocation sections of a relocatable object, by the section that they apply to.
    pub(super) relocation_index: RelocationIndex,
    pub(super) addresses: Addresses,
    /// The separate debug file, if the caller has set one.
    pub(super) debug_file: Option<Box<Elf<'a>>>,
}

impl<'a> Elf<'a> {
    /// Reads the headers.
    pub(crate) fn parse(bytes: &'a [u8], placement: Placement) -> Result<Self, Error> {
        let headers = Headers::parse(bytes)?;
        let relocation_index = match headers.kind {
            Kind::Relocatable => RelocationIndex::read(&headers),
            Kind::Linked => RelocationIndex::default(),
        };
        let addresses = Addresses::new(&headers, placement)?;
        Ok(Self { headers, relocation_index, addresses, debug_file: None })
    }

    /// Returns a section. Its bytes are decompressed, and relocated if the file is a relocatable object.
    pub(super) fn section(
        &self,
        index: SectionIndex,
        header: &SectionHeader64<Endianness>,
        room: &mut Room,
    ) -> Result<Section<'a>, Error> {
        let headers = &self.headers;
        room.copy(headers, index.0, header)?;
        let mut bytes = if header.sh_flags(headers.endian).contains(elf::SHF_COMPRESSED) {
            compression::decompress(headers, index.0, header, room)?
        } else if headers.name(header) == ZDEBUG_FRAME {
            compression::decompress_by_name(headers, index.0, room)?
        } else {
            Cow::Borrowed(headers.section_bytes(index.0)?)
        };
        if headers.kind == Kind::Relocatable {
            self.relocation_index.apply(headers, &self.addresses, index.0, &mut bytes)?;
        }
        Ok(self.with_bytes(index, header, bytes))
    }

    /// Returns a section with its bytes as they lie in the file.
    fn stored(
        &self,
        index: SectionIndex,
        header: &SectionHeader64<Endianness>,
    ) -> Result<Section<'a>, Error> {
        Ok(self.with_bytes(index, header, Cow::Borrowed(self.headers.section_bytes(index.0)?)))
    }

    fn with_bytes(
        &self,
        index: SectionIndex,
        header: &SectionHeader64<Endianness>,
        bytes: Cow<'a, [u8]>,
    ) -> Section<'a> {
        let name = names::text(self.headers.name(header));
        Section { index: Some(index.0), name, address: Address(self.addresses.of_section(index.0)), bytes }
    }

    pub(crate) fn sframe_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let headers = &self.headers;
        let mut found = Vec::new();
        let mut room = Room::for_file(headers);
        for (index, header) in headers.sections.enumerate() {
            let is_sframe =
                header.sh_type(headers.endian) == elf::SHT_GNU_SFRAME || headers.name(header) == b".sframe";
            if is_sframe && headers.has_bytes(header) {
                found.push(self.section(index, header, &mut room)?);
            }
        }
        if headers.sections.is_empty() {
            for segment in headers.segments.iter().filter(|s| s.p_type(headers.endian) == elf::PT_GNU_SFRAME)
            {
                found.push(headers.segment(segment, ".sframe")?);
            }
        }
        Ok(found)
    }

    /// Returns the headers as they lie in the file.
    pub fn headers(&self) -> &Headers<'a> {
        &self.headers
    }

    /// Returns the address in the program header `PT_GNU_SFRAME`. Unwinders find the `.sframe` table of a linked file
    /// by it.
    pub fn sframe_segment(&self) -> Option<Address> {
        let Headers { segments, endian, .. } = &self.headers;
        let segment = segments.iter().find(|segment| segment.p_type(*endian) == elf::PT_GNU_SFRAME)?;
        Some(Address(segment.p_vaddr(*endian)))
    }

    /// Returns the size of `.eh_frame_hdr` in bytes, or 0 if the file has none.
    pub fn eh_frame_hdr_size(&self) -> u64 {
        let headers = &self.headers;
        let segment = headers.segments.iter().find(|s| s.p_type(headers.endian) == elf::PT_GNU_EH_FRAME);
        segment.map_or(0, |segment| segment.p_filesz(headers.endian))
    }

    /// Reads the index of FDEs in `.eh_frame_hdr`. The result is `None` if the file has no index.
    ///
    /// # Errors
    /// The program header of `.eh_frame_hdr` leads out of the file.
    pub fn fde_index(&self) -> Result<Option<FdeIndex>, Error> {
        Ok(EhFrameHdr::find(self)?.and_then(|header| header.index(&self.headers)))
    }

    /// Returns whether the file contains only debug information, as `objcopy --only-keep-debug` leaves it. In such a
    /// file the sections of code or `.eh_frame` have no contents (`SHT_NOBITS`). You find the contents in the file
    /// that the debug information was split from.
    pub fn is_debug_file(&self) -> bool {
        let headers = &self.headers;
        headers.sections.iter().any(|header| {
            let flags = header.sh_flags(headers.endian);
            let is_loaded = flags.contains(elf::SHF_ALLOC) && header.sh_size(headers.endian) != 0;
            is_loaded
                && !headers.has_bytes(header)
                && (flags.contains(elf::SHF_EXECINSTR) || headers.name(header) == b".eh_frame")
        })
    }

    /// Returns whether the file is a "slim" LTO object of GCC: it has GCC's intermediate code (`-flto`) and no
    /// instructions. Source: GCC's manual, `-ffat-lto-objects`.
    pub fn is_gcc_lto(&self) -> bool {
        let headers = &self.headers;
        let has_lto = headers.sections.iter().any(|header| headers.name(header).starts_with(b".gnu.lto_"));
        let has_code = headers.sections.iter().any(|header| {
            header.sh_flags(headers.endian).contains(elf::SHF_EXECINSTR)
                && header.sh_size(headers.endian) != 0
        });
        has_lto && !has_code
    }

    pub(crate) fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let headers = &self.headers;
        let mut found = Vec::new();
        let mut room = Room::for_file(headers);
        for (index, header) in headers.sections.enumerate() {
            let flags = header.sh_flags(headers.endian);
            if !flags.contains(elf::SHF_ALLOC | elf::SHF_EXECINSTR) || !headers.has_bytes(header) {
                continue;
            }
            let section = self.stored(index, header)?;
            room.copy(headers, index.0, header)?;
            found.push(section);
        }
        if headers.sections.is_empty() {
            for segment in headers.loaded().filter(|s| s.p_flags(headers.endian).contains(elf::PF_X)) {
                found.push(headers.segment(segment, "")?);
            }
        }
        Ok(found)
    }

    pub(crate) fn data_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let headers = &self.headers;
        let mut found = Vec::new();
        let mut room = Room::for_file(headers);
        for (index, header) in headers.sections.enumerate() {
            let flags = header.sh_flags(headers.endian);
            let is_data = flags.contains(elf::SHF_ALLOC) && !flags.contains(elf::SHF_EXECINSTR);
            if !is_data || !headers.has_bytes(header) {
                continue;
            }
            found.push(match self.section(index, header, &mut room) {
                Ok(section) => section,
                // Relocations that this crate does not know. The bytes are returned without relocations applied.
                Err(_) => self.stored(index, header)?,
            });
        }
        Ok(found)
    }

    /// Returns the section with a name if it is not loaded, decompressed and relocated. If the file has none, the section
    /// of its debug file is returned.
    pub(crate) fn debug_section(&self, name: &str) -> Result<Option<Section<'a>>, Error> {
        let headers = &self.headers;
        for (index, header) in headers.sections.enumerate() {
            let is_loaded = header.sh_flags(headers.endian).contains(elf::SHF_ALLOC);
            if !is_loaded && headers.name(header) == name.as_bytes() && headers.has_bytes(header) {
                return self.section(index, header, &mut Room::for_file(headers)).map(Some);
            }
        }
        self.debug_file.as_ref().map_or(Ok(None), |debug_file| debug_file.debug_section(name))
    }

    /// Returns the section that contains an address.
    pub(crate) fn locate(&self, address: Address) -> Option<Location<'a>> {
        self.addresses.locate(&self.headers, address)
    }

    /// Returns the header of the section that contains an address, if the section has bytes in the file.
    pub(super) fn loaded_section(&self, address: Address) -> Option<&'a SectionHeader64<Endianness>> {
        let section = self.locate(address)?.section;
        let header = self.headers.sections.section(SectionIndex(section)).ok()?;
        self.headers.has_bytes(header).then_some(header)
    }

    /// Returns the address of a section, or 0 if the section does not exist.
    pub(crate) fn start_of_section(&self, index: SectionIndex) -> u64 {
        self.addresses.of_section(index.0)
    }

    /// Returns the end address of a section (exclusive), or 0 if the section does not exist.
    pub(crate) fn end_of_section(&self, index: SectionIndex) -> u64 {
        let headers = &self.headers;
        let size = headers.sections.section(index).map_or(0, |header| header.sh_size(headers.endian));
        self.addresses.of_section(index.0).saturating_add(size)
    }

    /// Returns the relocations of a section in file order.
    pub(crate) fn relocations(&self, section: usize) -> Result<Vec<Relocation>, Error> {
        self.relocation_index.relocations(&self.headers, section, self.headers.section_bytes(section)?)
    }
}
