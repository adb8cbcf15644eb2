//! Makes the rows and relocations that llvm-mc 23 writes for a function, from the encodings that it chose and the
//! personality and LSDA of the directives.

use std::fs;

use cfipack_encoder::compact_unwind::{Entry, RelocationTarget, Section};
use cfipack_format::Arch;
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Flags};
use cfipack_tests::corpora;
use object::read::macho::{MachHeader, MachOFile, MachOSection, Section as _};
use object::{Architecture, Endianness, Object, ObjectSection, ObjectSymbol, macho};

/// Returns the operand of a directive, as in `.cfi_personality 155, NAME`.
fn directive<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let line = source.lines().find(|line| line.trim().starts_with(name))?;
    Some(line.rsplit(',').next().unwrap().trim())
}

/// Compares the section of an object, and returns its number of rows.
fn compare<H: MachHeader<Endian = Endianness>>(name: &str, source: &str, bytes: &[u8], arch: Arch) -> usize {
    let object = MachOFile::<H>::parse(bytes).unwrap();
    let Some(theirs) = object.section_by_name("__compact_unwind") else { return 0 };
    let text = object.section_by_name("__text").unwrap();
    let personality = directive(source, ".cfi_personality").map(|name| {
        let symbol = object.symbols().find(|symbol| symbol.name() == Ok(name));
        // A personality is absent if only a DWARF row names it.
        let number = symbol.map_or(0xff_ffff, |symbol| symbol.index().0 as u32);
        RelocationTarget::Symbol { number }
    });
    let lsda = directive(source, ".cfi_lsda")
        .map(|_| place(&object.section_by_name("__gcc_except_tab").unwrap(), 0));
    let mut ours = Section::new(arch).unwrap();
    let rows = theirs.data().unwrap().chunks_exact(Row::size(arch.pointer_size()));
    for row in rows.map(|row| Row::read(row, arch.pointer_size()).unwrap()) {
        ours.push(&Entry {
            function: place(&text, row.function - text.address()),
            length: row.length,
            encoding: Encoding(row.encoding.0 & !Flags::HAS_LSDA.bits()),
            personality,
            lsda,
        });
    }
    assert_eq!(ours.as_bytes(), theirs.data().unwrap(), "{name}");
    let relocations = theirs.macho_section().relocations(Endianness::Little, bytes).unwrap();
    let raw = |relocation: &macho::Relocation<Endianness>| {
        let words = [relocation.r_word0, relocation.r_word1];
        words.map(|word| word.get(Endianness::Little).to_le_bytes()).concat()
    };
    let theirs: Vec<_> = relocations.iter().map(raw).collect();
    let mine: Vec<_> = ours.relocations().map(|relocation| relocation.write().to_vec()).collect();
    assert_eq!(mine, theirs, "{name}");
    ours.num_entries()
}

fn place<H: MachHeader>(section: &MachOSection<'_, '_, H>, offset: u64) -> RelocationTarget {
    RelocationTarget::Section { number: section.index().0 as u8, address: section.address() + offset }
}

#[test]
fn rows_are_llvm_mcs() {
    let directory = corpora::directory().join("compact-unwind/mc");
    let (mut objects, mut rows) = (0, 0);
    for file in fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "o") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (source, bytes) =
            (fs::read_to_string(path.with_extension("s")).unwrap(), fs::read(&path).unwrap());
        rows += match object::File::parse(&*bytes).unwrap().architecture() {
            Architecture::X86_64 => compare::<macho::MachHeader64<_>>(name, &source, &bytes, Arch::Amd64),
            Architecture::Aarch64 => compare::<macho::MachHeader64<_>>(name, &source, &bytes, Arch::Aarch64),
            Architecture::I386 => compare::<macho::MachHeader32<_>>(name, &source, &bytes, Arch::I386),
            Architecture::Aarch64_Ilp32 => {
                compare::<macho::MachHeader32<_>>(name, &source, &bytes, Arch::Arm64_32)
            }
            other => panic!("{name}: {other:?}"),
        };
        objects += 1;
    }
    println!("{objects} objects, {rows} rows");
    assert!(objects > 110 && rows > 110, "{objects} objects with {rows} rows in {}", directory.display());
}
