//! Program headers and section headers as plain numbers.

use object::Endianness;
use object::elf;

/// Bytes of the ELF header, of a program header and of a section header.
pub(super) const HEADER: u64 = 64;
pub(super) const SEGMENT: u64 = 56;
pub(super) const SECTION: u64 = 64;

/// A program header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) vaddr: u64,
    pub(super) paddr: u64,
    pub(super) filesz: u64,
    pub(super) memsz: u64,
    pub(super) align: u64,
}

/// A section header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Section {
    pub(super) name: u32,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) addr: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) link: u32,
    pub(super) info: u32,
    pub(super) align: u64,
    pub(super) entsize: u64,
}

impl Section {
    /// Returns whether the section is loaded into memory (`SHF_ALLOC`).
    pub(super) fn is_loaded(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Returns whether the section has bytes in the file.
    pub(super) fn has_bytes(&self) -> bool {
        self.kind != elf::SHT_NOBITS.0 && self.kind != elf::SHT_NULL.0 && self.size != 0
    }

    /// Returns whether the section occupies a range of addresses. A section of uninitialised thread-local storage
    /// (`.tbss`) has an address, but no memory there.
    pub(super) fn has_memory(&self) -> bool {
        let is_template = self.kind == elf::SHT_NOBITS.0 && self.flags & elf::SHF_TLS.0 != 0;
        self.is_loaded() && self.size != 0 && !is_template
    }

    /// Returns whether the section holds relocations.
    pub(super) fn has_relocations(&self) -> bool {
        self.kind == elf::SHT_RELA.0 || self.kind == elf::SHT_REL.0
    }

    pub(super) fn read(section: &elf::SectionHeader64<Endianness>, endian: Endianness) -> Self {
        Self {
            name: section.sh_name.get(endian),
            kind: section.sh_type.get(endian).0,
            flags: section.sh_flags.get(endian).0,
            addr: section.sh_addr.get(endian),
            offset: section.sh_offset.get(endian),
            size: section.sh_size.get(endian),
            link: section.sh_link.get(endian),
            info: section.sh_info.get(endian),
            align: section.sh_addralign.get(endian),
            entsize: section.sh_entsize.get(endian),
        }
    }
}

impl Segment {
    pub(super) fn read(segment: &elf::ProgramHeader64<Endianness>, endian: Endianness) -> Self {
        Self {
            kind: segment.p_type.get(endian).0,
            flags: segment.p_flags.get(endian).0,
            offset: segment.p_offset.get(endian),
            vaddr: segment.p_vaddr.get(endian),
            paddr: segment.p_paddr.get(endian),
            filesz: segment.p_filesz.get(endian),
            memsz: segment.p_memsz.get(endian),
            align: segment.p_align.get(endian),
        }
    }
}
