//! Reads what a linker needs of an object: sections, groups, and targets of relocations in `.sframe`.

use std::collections::HashSet;
use std::error::Error;

use cfipack_format::elf::SHT_GNU_SFRAME;
use object::elf::{SHF_GROUP, SHF_MERGE, SHT_NOBITS, SectionFlags};
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Endianness, Object as _, ObjectComdat, ObjectSection, ObjectSymbol, RelocationTarget};

/// An input object.
#[derive(Debug, Default)]
pub struct Object {
    /// The name in the map.
    pub file: String,
    /// Sections by number.
    pub sections: Vec<Section>,
    /// Signatures of COMDAT groups, and the numbers of their sections.
    pub comdats: Vec<(String, Vec<usize>)>,
    /// The table, if `ld` accepts it.
    pub sframe: Option<Vec<u8>>,
    /// The targets of relocated fields in the table, in order: the field, then section and offset of the target.
    targets: Vec<(usize, (usize, u64))>,
    /// Why `ld` does not accept the table.
    pub ignored: Option<&'static str>,
}

/// A section of an object.
#[derive(Debug, Default)]
pub struct Section {
    /// The name.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
    /// Whether the linker may make it smaller.
    pub can_shrink: bool,
    /// Whether it belongs to a group.
    pub is_grouped: bool,
    /// Global symbols that it defines.
    pub symbols: HashSet<String>,
}

impl Object {
    /// Reads a 64-bit object.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Box<dyn Error>> {
        let elf = ElfFile64::<Endianness>::parse(bytes)?;
        let mut this = Self { file: file.to_owned(), ..Self::default() };
        for section in elf.sections() {
            let number = section.index().0;
            let name = section.name()?.to_owned();
            let header = section.elf_section_header();
            let kind = header.sh_type(elf.endian());
            let has = |flag: SectionFlags| header.sh_flags(elf.endian()).0 & flag.0 != 0;
            let can_shrink = has(SHF_MERGE)
                || kind == SHT_NOBITS
                || [".eh_frame", ".sframe", ".comment", ".note.gnu.property"].contains(&name.as_str());
            if name == ".sframe" && section.size() != 0 {
                let data = section.data()?;
                match (kind.0 == SHT_GNU_SFRAME, data.get(2)) {
                    (false, _) => this.ignored = Some("is of another type than SHT_GNU_SFRAME"),
                    (true, Some(3)) => this.sframe = Some(data.to_vec()),
                    (true, _) => this.ignored = Some("is not of version 3"),
                }
                for (field, relocation) in section.relocations() {
                    let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                    let symbol = elf.symbol_by_index(symbol)?;
                    let Some(target) = symbol.section_index() else { continue };
                    let offset = symbol.address().wrapping_add_signed(relocation.addend());
                    this.targets.push((field as usize, (target.0, offset)));
                }
            }
            this.sections.resize_with(this.sections.len().max(number + 1), Section::default);
            let (size, is_grouped, symbols) = (section.size(), has(SHF_GROUP), HashSet::new());
            this.sections[number] = Section { name, size, can_shrink, is_grouped, symbols };
        }
        for symbol in elf.symbols().filter(|symbol| symbol.is_global()) {
            if let Some(section) = symbol.section_index() {
                this.sections[section.0].symbols.insert(symbol.name()?.to_owned());
            }
        }
        this.targets.sort_unstable();
        for group in elf.comdats() {
            let sections = group.sections().map(|section| section.0).collect();
            this.comdats.push((group.name()?.to_owned(), sections));
        }
        Ok(this)
    }

    /// Returns the target of a field in the table: a section and the offset in it.
    pub fn target(&self, field: usize) -> Option<(usize, u64)> {
        let found = self.targets.binary_search_by_key(&field, |target| target.0).ok()?;
        Some(self.targets[found].1)
    }
}
