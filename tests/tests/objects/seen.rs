//! Reads an object with the crate `object`, without numbers of sections and symbols.

use object::{Object as _, ObjectComdat as _, ObjectSection as _, ObjectSymbol as _};

/// A section, with its relocations.
#[derive(PartialEq, Eq, Debug)]
pub struct Seen {
    pub name: String,
    pub bytes: Vec<u8>,
    pub flags: object::SectionFlags,
    pub align: u64,
    /// Offset, type, target and addend of each relocation.
    pub relocations: Vec<(u64, object::RelocationFlags, String, i64)>,
}

/// Returns every section except tables of symbols, names and relocations, with `.sframe` last. Then symbols and groups.
pub fn seen(bytes: &[u8]) -> (Vec<Seen>, Vec<String>) {
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes).expect("an object");
    let section_name = |index| file.section_by_index(index).unwrap().name().unwrap().to_owned();
    let symbol_name = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
        let section = symbol.section_index().map(section_name).unwrap_or_default();
        let (kind, flags) = (symbol.kind(), symbol.flags());
        let flags = match flags {
            object::SymbolFlags::Elf { st_info, st_other, .. } => (st_info, st_other),
            other => panic!("{other:?}"),
        };
        let name = symbol.name().unwrap();
        format!("{name} {section}+{:#x} size {:#x} {kind:?} {flags:?}", symbol.address(), symbol.size())
    };
    let is_seen = |section: &object::read::elf::ElfSection64<'_, '_>| {
        let name = section.name().unwrap();
        let is_table = [".symtab", ".strtab", ".shstrtab", ".symtab_shndx", ".group", ".llvm_addrsig", ""];
        !is_table.contains(&name)
            && ![".rela.", ".rel.", ".crel."].iter().any(|prefix| name.starts_with(prefix))
    };
    let mut sections = Vec::new();
    for section in file.sections().filter(is_seen) {
        let relocations = section.relocations().map(|(offset, relocation)| {
            let object::RelocationTarget::Symbol(symbol) = relocation.target() else {
                return (offset, relocation.flags(), String::new(), relocation.addend());
            };
            let symbol = symbol_name(&file.symbol_by_index(symbol).unwrap());
            (offset, relocation.flags(), symbol, relocation.addend())
        });
        sections.push(Seen {
            name: section.name().unwrap().to_owned(),
            bytes: section.data().unwrap().to_vec(),
            flags: section.flags(),
            align: section.align(),
            relocations: relocations.collect(),
        });
    }
    sections.sort_by_key(|section| section.name == ".sframe");
    // Section symbols may be added and removed.
    let symbols = file.symbols().filter(|symbol| symbol.kind() != object::SymbolKind::Section);
    let mut others: Vec<_> = symbols.map(|symbol| symbol_name(&symbol)).collect();
    for group in file.comdats() {
        let members: Vec<_> = group.sections().map(section_name).collect();
        others.push(format!("group {}: {members:?}", group.name().unwrap()));
    }
    (sections, others)
}

/// Asserts that only the table differs, and that it is as linkers require.
pub fn assert_only_table_added(name: &str, old: &[u8], new: &[u8]) {
    let (old_sections, old_others) = seen(old);
    let (mut new_sections, new_others) = seen(new);
    let table = new_sections.pop().expect("a table");
    for (new, old) in new_sections.iter().zip(&old_sections) {
        assert_eq!(new, old, "{name}");
    }
    assert_eq!(new_sections.len(), old_sections.len(), "{name}");
    assert_eq!(new_others, old_others, "{name}");
    assert_eq!((&*table.name, table.align), (".sframe", 8), "{name}");
    let object::SectionFlags::Elf { sh_type, sh_flags } = table.flags else { panic!("{name}") };
    assert_eq!((sh_type.0, sh_flags.0), (0x6fff_fff4, 2), "{name}: SHT_GNU_SFRAME, SHF_ALLOC");
    assert!(!table.relocations.is_empty(), "{name}");
}
