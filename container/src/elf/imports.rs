//! Finds pointers that the dynamic linker sets to functions and data of other files.

use std::borrow::Cow;

use cfipack_format::{Address, Arch};
use object::SymbolIndex;
use object::elf::{self, RelocationType};
use object::read::elf::{FileHeader as _, Rela as _, SectionHeader as _};

use super::file::Elf;
use super::headers::Headers;
use crate::kind::Kind;
use crate::names;

impl<'a> Elf<'a> {
    /// Returns the pointers with the names of the symbols that they lead to, in the order of the relocations. Entries
    /// that cannot be read are skipped.
    pub(crate) fn imports(&self) -> Vec<(Address, Cow<'a, str>)> {
        let Headers { endian, bytes, arch, kind, sections, .. } = &self.headers;
        let mut imports = Vec::new();
        if *kind == Kind::Relocatable {
            return imports;
        }
        // Many relocations may share a long name. This limit keeps all names together below the size of the file.
        let mut room = bytes.len();
        for section in sections.iter() {
            let Ok(Some((entries, link))) = section.rela(*endian, *bytes) else { continue };
            let Ok(symbols) = sections.symbol_table_by_index(*endian, *bytes, link) else { continue };
            for entry in entries {
                if !is_pointer(*arch, entry.r_type(*endian, false)) {
                    continue;
                }
                let index = SymbolIndex(entry.r_sym(*endian, false) as usize);
                let Ok(symbol) = symbols.symbol(index) else { continue };
                let Ok(name) = symbols.symbol_name(*endian, symbol) else { continue };
                let Some(rest) = room.checked_sub(name.len()) else { return imports };
                room = rest;
                imports.push((Address(entry.r_offset(*endian)), names::text(name)));
            }
        }
        imports
    }

    /// Returns the addresses of this file that the dynamic linker stores as pointers: the addends of relocations
    /// without a symbol. Returns `None` if words of the data may be pointers without such a relocation.
    pub(crate) fn relative_pointers(&self) -> Option<Vec<Address>> {
        let Headers { endian, bytes, file, sections, .. } = &self.headers;
        let is_packed = sections.iter().any(|section| section.sh_type(*endian) == elf::SHT_RELR);
        if file.e_type(*endian) != elf::ET_DYN || is_packed {
            return None;
        }
        let mut pointers = Vec::new();
        for section in sections.iter() {
            let Ok(Some((entries, _))) = section.rela(*endian, *bytes) else { continue };
            let own = entries.iter().filter(|entry| entry.r_sym(*endian, false) == 0);
            pointers.extend(own.map(|entry| Address(entry.r_addend(*endian) as u64)));
        }
        (!pointers.is_empty()).then_some(pointers)
    }
}

/// Returns whether a relocation stores a symbol's plain address, for stubs. Source: the psABIs, "Relocation Types".
fn is_pointer(arch: Arch, kind: RelocationType) -> bool {
    match arch {
        Arch::Amd64 => matches!(kind, elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT),
        Arch::Aarch64 | Arch::Aarch64Be => {
            matches!(kind, elf::R_AARCH64_JUMP_SLOT | elf::R_AARCH64_GLOB_DAT)
        }
        Arch::S390x => matches!(kind, elf::R_390_JMP_SLOT | elf::R_390_GLOB_DAT),
        Arch::Riscv64 => matches!(kind, elf::R_RISCV_JUMP_SLOT | elf::R_RISCV_64),
        Arch::I386 | Arch::Arm64_32 => false,
    }
}
