//! Reads the output of `ld`.

use std::error::Error;

use cfipack_format::{Address, Arch};
use object::elf::{EM_AARCH64, EM_S390, EM_X86_64, ET_REL, SHF_GROUP, SHT_GROUP};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{Endianness, Object as _, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget};

/// A linked file, or relocatable output.
#[derive(Debug)]
pub struct Linked<'a> {
    /// The architecture.
    pub arch: Arch,
    /// True for relocatable output.
    pub is_relocatable: bool,
    /// The section headers.
    pub sections: Vec<Header<'a>>,
    /// The relocations of `.sframe`, in the order of their fields. Relocatable output has them, and so has `--emit-relocs`.
    pub relocations: Vec<Relocation>,
}

/// A section header.
#[derive(Debug)]
pub struct Header<'a> {
    /// The name.
    pub name: String,
    /// The number of the header.
    pub number: usize,
    /// The address.
    pub address: Address,
    /// The size in bytes.
    pub size: u64,
    /// If the section consists of equal parts: their size in bytes (`sh_entsize`). Otherwise 0.
    pub entry_size: u64,
    /// Whether it is a group.
    pub is_group: bool,
    /// Whether it belongs to a group.
    pub is_grouped: bool,
    /// The bytes.
    pub data: &'a [u8],
}

/// A relocation. In linked output the field and the target are addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// The field.
    pub field: u64,
    /// The type.
    pub r_type: u32,
    /// The number of the target's section.
    pub section: usize,
    /// The offset in the target's section.
    pub offset: u64,
}

impl<'a> Linked<'a> {
    /// Reads an ELF file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Box<dyn Error>> {
        let elf = ElfFile64::<Endianness>::parse(bytes)?;
        let header = elf.elf_header();
        let arch = match (header.e_machine(elf.endian()), elf.is_little_endian()) {
            (EM_X86_64, _) => Arch::Amd64,
            (EM_AARCH64, true) => Arch::Aarch64,
            (EM_AARCH64, false) => Arch::Aarch64Be,
            (EM_S390, _) => Arch::S390x,
            (machine, _) => return Err(format!("machine {} has no .sframe", machine.0).into()),
        };
        let is_relocatable = header.e_type(elf.endian()) == ET_REL;
        let (mut sections, mut relocations) = (Vec::new(), Vec::new());
        for section in elf.sections() {
            let name = section.name()?.to_owned();
            if name == ".sframe" {
                for (field, relocation) in section.relocations() {
                    let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                    let symbol = elf.symbol_by_index(symbol)?;
                    let (Some(section), RelocationFlags::Elf { r_type }) =
                        (symbol.section_index(), relocation.flags())
                    else {
                        continue;
                    };
                    let offset = symbol.address().wrapping_add_signed(relocation.addend());
                    relocations.push(Relocation { field, r_type: r_type.0, section: section.0, offset });
                }
            }
            let flags = section.elf_section_header().sh_flags(elf.endian());
            sections.push(Header {
                is_grouped: flags.0 & SHF_GROUP.0 != 0,
                name,
                number: section.index().0,
                address: Address(section.address()),
                size: section.size(),
                entry_size: section.elf_section_header().sh_entsize(elf.endian()),
                is_group: section.elf_section_header().sh_type(elf.endian()) == SHT_GROUP,
                data: section.data()?,
            });
        }
        Ok(Self { arch, is_relocatable, sections, relocations })
    }

    /// Returns the first section with a name that has bytes.
    pub fn section(&self, name: &str) -> Option<&Header<'a>> {
        self.sections.iter().find(|section| section.name == name && !section.data.is_empty())
    }
}
