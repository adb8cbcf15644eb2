//! Sections of relocatable ELF objects, relocated as if each section had been loaded.

use cfipack_encoder::cfi::{Section, SectionKind};
use cfipack_format::{Address, Arch};
use object::read::elf::{ElfFile64, FileHeader};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, elf};

/// An object's sections by name, with their addresses.
#[derive(Debug)]
pub struct Loaded {
    pub arch: Arch,
    sections: Vec<(String, Address, Vec<u8>)>,
}

impl Loaded {
    pub fn read(bytes: &[u8]) -> Self {
        match bytes[5] {
            1 => Self::from(&ElfFile64::<object::LittleEndian>::parse(bytes).unwrap(), true),
            _ => Self::from(&ElfFile64::<object::BigEndian>::parse(bytes).unwrap(), false),
        }
    }

    fn from<H: FileHeader<Endian = E>, E: object::Endian>(
        file: &object::read::elf::ElfFile<'_, H>,
        little: bool,
    ) -> Self {
        let arch = match (file.architecture(), little) {
            (object::Architecture::X86_64, _) => Arch::Amd64,
            (object::Architecture::Aarch64, true) => Arch::Aarch64,
            (object::Architecture::Aarch64, false) => Arch::Aarch64Be,
            (object::Architecture::S390x, _) => Arch::S390x,
            (other, _) => panic!("architecture {other:?}"),
        };
        let address = |index: object::SectionIndex| 0x1_0000 * index.0 as u64;
        let sections = file.sections().map(|section| {
            let mut data = section.data().unwrap().to_vec();
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                let symbol = file.symbol_by_index(symbol).unwrap();
                let Some(of) = symbol.section_index() else { continue };
                let target = address(of).wrapping_add(symbol.address()).wrapping_add(relocation.addend() as u64);
                let object::RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
                let place = address(section.index()) + offset;
                let (value, size) = match (arch, r_type) {
                    (Arch::Amd64, elf::R_X86_64_64) => (target, 8),
                    (Arch::Amd64, elf::R_X86_64_PC32) => (target.wrapping_sub(place), 4),
                    (Arch::Amd64, elf::R_X86_64_PC64) => (target.wrapping_sub(place), 8),
                    (Arch::S390x, elf::R_390_PC32) => (target.wrapping_sub(place), 4),
                    (Arch::S390x, elf::R_390_PC64) => (target.wrapping_sub(place), 8),
                    (Arch::Aarch64 | Arch::Aarch64Be, elf::R_AARCH64_PREL32) => (target.wrapping_sub(place), 4),
                    (Arch::Aarch64 | Arch::Aarch64Be, elf::R_AARCH64_PREL64) => (target.wrapping_sub(place), 8),
                    _ => continue,
                };
                let field = &mut data[offset as usize..][..size];
                match little {
                    true => field.copy_from_slice(&value.to_le_bytes()[..size]),
                    false => field.copy_from_slice(&value.to_be_bytes()[8 - size..]),
                }
            }
            (section.name().unwrap().to_owned(), Address(address(section.index())), data)
        });
        Self { arch, sections: sections.collect() }
    }

    /// A section's bytes and address.
    pub fn section(&self, name: &str) -> Option<(&[u8], Address)> {
        self.sections.iter().find(|(n, ..)| n == name).map(|(_, address, bytes)| (&bytes[..], *address))
    }

    pub fn eh_frame(&self) -> Option<Section<'_>> {
        let (bytes, address) = self.section(".eh_frame")?;
        Some(Section::new(SectionKind::EhFrame, bytes, address, self.arch))
    }
}
