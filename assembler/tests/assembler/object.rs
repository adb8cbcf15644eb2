//! Objects that have only tables.

use cfipack_assembler::text::Reader;
use cfipack_assembler::{Linker, ObjectError, ObjectOptions, UnnamedReason};
use cfipack_encoder::sframe::Options;
use cfipack_format::{Arch, Key};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};

use crate::goldens::LISTING;

/// The table's fields lead to symbols of the functions that can be named from outside; every other function is named.
#[test]
fn tables_lead_to_global_symbols() {
    let unit = Reader::new(Arch::Amd64).read(LISTING).unwrap();
    for linker in [Linker::Gnu, Linker::Lld] {
        let made = unit.object(ObjectOptions::new(Options::default()).with_linker(linker)).unwrap();
        let unnamed: Vec<_> = made.unnamed.iter().map(|unnamed| (unnamed.function, unnamed.reason)).collect();
        let expected = [
            (Key(1), UnnamedReason::Comdat),
            (Key(2), UnnamedReason::NoGlobalSymbol),
            (Key(3), UnnamedReason::Comdat),
        ];
        assert_eq!((unnamed.as_slice(), made.omitted.len()), (&expected[..], 0));
        let file = ElfFile64::<object::Endianness>::parse(&*made.bytes).unwrap();
        let mut leads = Vec::new();
        for section in file.sections() {
            for (_, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("no symbol") };
                let symbol = file.symbol_by_index(symbol).unwrap();
                assert!(symbol.is_undefined());
                leads.push((symbol.name().unwrap(), relocation.addend()));
            }
        }
        // Of `.sframe` alone, whose one function is the first one.
        assert_eq!(leads, [("first", 0)]);
    }
}

#[test]
fn there_is_no_such_object_for_mach_o() {
    let text = "\t.section __TEXT,__text\n_f:\t.cfi_startproc\n\t.byte 0xc3\n\t.cfi_endproc\n";
    let unit = Reader::new(Arch::Amd64).read(text.as_bytes()).unwrap();
    let refused = unit.object(ObjectOptions::new(Options::default())).map(|made| made.bytes);
    assert_eq!(refused, Err(ObjectError::MachO));
}
