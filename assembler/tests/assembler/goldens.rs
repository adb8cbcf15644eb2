//! Reads the CFI of gas's objects as directives, writes it again, and compares both.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cfipack_assembler::{Assembly, Directives, Target};
use cfipack_cfi::{Functions, Personality, Section, SectionKind};
use cfipack_format::{Address, Arch, Key};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};

/// Objects with CFI that directives cannot express, so the CFI written from its directives differs.
const DIFFERENT: [&str; 14] = [
    // Padding, and an advance to it.
    "aarch64/a_escape_nop.gas247.o",
    // An instruction that is not read.
    "aarch64/a_negate_pc.gas247.o",
    // A factored form for an offset of 0.
    "x86_64/x_cfa_m3.gas247.o",
    // The source has a second, equal CIE as data.
    "x86_64/x_eh_frame_by_hand.gas247.o",
    "x86_64/x_escape_256.gas247.o",
    "x86_64/x_escape_advance8.gas247.o",
    // `DW_CFA_GNU_negative_offset_extended`, which another instruction replaces.
    "x86_64/x_escape_negative_offset.gas247.o",
    "x86_64/x_escape_negative_offset_fp.gas247.o",
    "x86_64/x_escape_nop.gas247.o",
    "x86_64/x_escape_nop_other.gas247.o",
    "x86_64/x_escape_nops.gas247.o",
    "x86_64/x_escape_unknown.gas247.o",
    "x86_64/x_label.gas247.o",
    // A relocation in an expression.
    "x86_64/x_val_encoded.gas247.o",
];

/// An `.eh_frame` that is read as directives and written again has gas's bytes, and the same pointers.
#[test]
fn cfi_of_gas_s_objects_is_written_again() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe");
    let (mut count, mut different) = (0, Vec::new());
    for (directory, arch) in [
        ("x86_64", Arch::Amd64),
        ("aarch64", Arch::Aarch64),
        ("aarch64_be", Arch::Aarch64Be),
        ("s390x", Arch::S390x),
    ] {
        for file in fs::read_dir(corpora.join(directory)).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.ends_with(".gas247.o") {
                continue;
            }
            let object = fs::read(&path).unwrap();
            let Some((bytes, fields)) = eh_frame(&object) else { continue };
            let ours = read_and_written(arch, &bytes, &fields);
            if ours != Ok((bytes, fields)) {
                different.push(format!("{directory}/{name}"));
            }
            count += 1;
        }
    }
    different.sort();
    assert_eq!(different, DIFFERENT);
    assert!(count > 250, "{count} objects");
}

/// The fields of a section that relocations fill. Each has a number: its place among the fields.
type Fields = BTreeMap<u64, u64>;

/// Returns the bytes and fields of an object's `.eh_frame`.
fn eh_frame(object: &[u8]) -> Option<(Vec<u8>, Fields)> {
    let file = ElfFile64::<object::Endianness>::parse(object).unwrap();
    let section = file.section_by_name(".eh_frame")?;
    let fields = section.relocations().map(|(offset, _)| offset).zip(0..).collect();
    Some((section.data().unwrap().to_vec(), fields))
}

/// Reads directives from a section, and writes them with an assembly.
fn read_and_written(arch: Arch, bytes: &[u8], fields: &Fields) -> Result<(Vec<u8>, Fields), String> {
    let section = Section::new(SectionKind::EhFrame, bytes, Address(0), arch);
    let key_at = |field: cfipack_format::SectionOffset| fields.get(&(field.0 as u64)).copied().map(Key);
    let mut assembly = Assembly::new(arch);
    for function in Functions::keyed(&section, key_at) {
        let function = function.unwrap();
        let mut directives =
            Directives::from_cfi(&function).map_err(|unsupported| unsupported.to_string())?;
        if let Some(Personality { encoding, field, .. }) = function.cie.personality {
            directives.personality(encoding, key_at(field).unwrap());
        }
        if let Some(field) = function.lsda_field() {
            directives.lsda(function.cie.lsda_encoding, key_at(field).unwrap());
        }
        assembly.push(function.key, &directives).unwrap();
    }
    let written = assembly.eh_frame().unwrap();
    let field = |relocation: &cfipack_assembler::Relocation| match relocation.target {
        Target::Function(Key(number)) | Target::Personality(Key(number)) | Target::Lsda(Key(number)) => {
            (relocation.offset.0 as u64, number)
        }
        other => panic!("{other:?}"),
    };
    Ok((written.as_bytes().to_vec(), written.relocations().iter().map(field).collect()))
}
