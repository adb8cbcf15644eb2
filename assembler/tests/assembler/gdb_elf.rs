//! gdb's file in memory, as `object` reads it.

use cfipack_assembler::Directives;
use cfipack_assembler::region::{Pointers, Region};
use cfipack_format::{Address, Arch, Register};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{
    Architecture, Object as _, ObjectKind, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind,
    elf,
};

const BASE: u64 = 0x7f00_1234_5000;

fn region(arch: Arch) -> Region {
    let mut region = Region::new(arch, Address(BASE), 0x1000).unwrap();
    for (name, offset) in [("first", 0), ("second::of many", 64), ("", 0xf00)] {
        let mut directives = Directives::new(arch, 32);
        directives.at(4).def_cfa_offset(32).offset(Register(6), -32);
        region.push(name, offset, &directives).unwrap();
    }
    region
}

#[test]
fn the_file_has_the_functions_and_their_cfi() {
    let arches = [
        (Arch::Amd64, Architecture::X86_64),
        (Arch::Aarch64, Architecture::Aarch64),
        (Arch::Aarch64Be, Architecture::Aarch64),
        (Arch::S390x, Architecture::S390x),
    ];
    for (arch, architecture) in arches {
        let region = region(arch);
        let bytes = region.gdb_elf().unwrap();
        let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
        assert_eq!(
            (file.architecture(), file.kind(), file.entry()),
            (architecture, ObjectKind::Executable, 0)
        );
        let (header, endian) = (file.elf_header(), file.endian());
        let sizes = [header.e_ehsize(endian), header.e_phnum(endian), header.e_shentsize(endian)];
        assert_eq!((sizes, header.e_flags(endian).0, header.e_phoff(endian)), ([64, 0, 64], 0, 0));
        let [text, frames] = [".text", ".eh_frame"].map(|name| file.section_by_name(name).unwrap());
        assert_eq!(
            (text.kind(), text.address(), text.size()),
            (SectionKind::UninitializedData, BASE, 0x1000)
        );
        let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
        assert_eq!((frames.data().unwrap(), frames.align()), (eh_frame.bytes(), 1));
        let mut found: Vec<_> = file.symbols().collect();
        // In the order of their addresses.
        found.sort_by_key(|symbol| symbol.address());
        let found: Vec<_> = found
            .iter()
            .map(|symbol| {
                assert_eq!(
                    (symbol.kind(), symbol.section_index(), symbol.is_global()),
                    (SymbolKind::Text, Some(text.index()), true)
                );
                (symbol.name().unwrap(), symbol.address() - BASE, symbol.size())
            })
            .collect();
        assert_eq!(found, [("first", 0, 32), ("second::of many", 64, 32), ("", 0xf00, 32)]);
        for section in file.sections() {
            let header = section.elf_section_header();
            let entry = if header.sh_type.get(endian) == elf::SHT_SYMTAB { 24 } else { 0 };
            assert_eq!(header.sh_entsize.get(endian), entry);
        }
    }
}
