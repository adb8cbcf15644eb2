//! Writes a relocatable ELF object as an assembler does, with the crate `object`: code, `.eh_frame`, `.sframe`, and the
//! relocations of both tables.
//!
//! ```sh
//! cargo run --example assemble_object -- functions.o
//! readelf -rW functions.o
//! ```

use std::error::Error;
use std::{env, fs};

use cfipack::assembler::{Assembly, Directives, Relocation, Target};
use cfipack::encoder::sframe::{Layout, Options};
use cfipack::format::{Arch, Key, Register};
use object::elf::{self, SHF_ALLOC, SHT_GNU_SFRAME, SHT_PROGBITS};
use object::write::{self, SectionId, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, RelocationFlags};
use object::{SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

const ARCH: Arch = Arch::Amd64;

/// The parts of a function that an assembler knows: name, code, and the directives between the instructions.
struct Function {
    name: &'static str,
    code: &'static [u8],
    directives: Directives,
}

fn functions() -> [Function; 2] {
    let (rsp, rbp) = (ARCH.stack_pointer(), Register::named(ARCH, "%rbp").expect("a register"));
    // push %rbp; mov %rsp, %rbp; lea (%rdi, %rdi), %eax; pop %rbp; ret
    let code: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x8d, 0x04, 0x3f, 0x5d, 0xc3];
    let mut directives = Directives::new(ARCH, code.len() as u64);
    directives.at(1).def_cfa_offset(16).offset(rbp, -16);
    directives.at(4).def_cfa_register(rbp);
    directives.at(8).def_cfa(rsp, 8);
    let twice = Function { name: "twice", code, directives };

    // sub $8, %rsp; call twice; add $8, %rsp; ret. The call target is 25 bytes back, at the start of the section.
    let code: &[u8] = &[0x48, 0x83, 0xec, 8, 0xe8, 0xe7, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 8, 0xc3];
    let mut directives = Directives::new(ARCH, code.len() as u64);
    directives.at(4).def_cfa_offset(16);
    directives.at(13).def_cfa_offset(8);
    [twice, Function { name: "four_times", code, directives }]
}

fn main() -> Result<(), Box<dyn Error>> {
    let [output] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: assemble_object OUTPUT".into());
    };
    let mut object = Object::new();
    let mut assembly = Assembly::new(ARCH);
    for function in functions() {
        // You choose the key of a function. Here it is the function's offset in `.text`.
        let offset = object.function(function.name, function.code);
        assembly.push(Key(offset), &function.directives)?;
    }

    let eh_frame = assembly.eh_frame()?;
    object.table(".eh_frame", SHT_PROGBITS, eh_frame.as_bytes(), eh_frame.relocations().iter().copied())?;

    // This layout gives the bytes of GNU as. The default layout needs fewer bytes.
    let sframe = assembly.sframe(Options::new().with_layout(Layout::Gnu))?;
    for function in &sframe.omitted {
        eprintln!("no rows in .sframe: {function}");
    }
    let mut bytes = vec![0; sframe.section.relocatable_len()];
    sframe.section.write_relocatable(&mut bytes)?;
    object.table(".sframe", SHT_GNU_SFRAME, &bytes, sframe.relocations())?;
    fs::write(output, object.writer.write()?)?;
    Ok(())
}

/// The object under construction.
struct Object {
    writer: write::Object<'static>,
    text: SectionId,
}

impl Object {
    fn new() -> Self {
        let mut writer = write::Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let text = writer.section_id(StandardSection::Text);
        // The object needs no executable stack.
        writer.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
        Self { writer, text }
    }

    /// Adds code, and returns its offset in `.text`.
    fn function(&mut self, name: &str, code: &[u8]) -> u64 {
        let symbol = self.writer.add_symbol(Symbol {
            name: name.into(),
            value: 0,
            size: 0,
            kind: SymbolKind::Text,
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Undefined,
            flags: SymbolFlags::None,
        });
        self.writer.add_symbol_data(symbol, self.text, code, 16)
    }

    /// Adds a section of unwind information. Relocations name `.text` and an offset, as GNU as writes them. A
    /// symbol that another module may define would need a relocation when the program is loaded.
    fn table(
        &mut self,
        name: &str,
        kind: elf::SectionType,
        bytes: &[u8],
        relocations: impl Iterator<Item = Relocation>,
    ) -> Result<(), Box<dyn Error>> {
        let section = self.writer.add_section(Vec::new(), name.into(), SectionKind::ReadOnlyData);
        self.writer.section_mut(section).flags = SectionFlags::Elf { sh_type: kind, sh_flags: SHF_ALLOC };
        self.writer.append_section_data(section, bytes, 8);
        let symbol = self.writer.section_symbol(self.text);
        for relocation in relocations {
            let Target::Function(Key(function)) = relocation.target else {
                return Err("this assembler has neither personality routines nor LSDAs".into());
            };
            let kind = relocation.elf_type(ARCH).ok_or("a field has no relocation")?;
            let relocation = write::Relocation {
                offset: relocation.offset.0 as u64,
                symbol,
                addend: function as i64 + relocation.addend,
                flags: RelocationFlags::Elf { r_type: elf::RelocationType(kind.number) },
            };
            self.writer.add_relocation(section, relocation)?;
        }
        Ok(())
    }
}
