//! The order of an edited file's bytes: a table comes before everything that is not loaded, and removal gives back all
//! bytes, with or without a header.

use cfipack_container::File;
use cfipack_edit::{EmbedError, without_sframe};
use cfipack_roundtrip::structure::{StructureError, check_structure};
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use super::programs::programs;
use super::unusual::{LOAD, Section, Segment, TEXT, program};
use super::{embedded, header, headers};

fn stripped(bytes: &[u8]) -> Result<Option<Vec<u8>>, EmbedError> {
    let file = File::parse(bytes).unwrap();
    Ok(without_sframe(&file)?.map(|rewrite| rewrite.to_vec(bytes)))
}

/// dwz refuses a file in which a loaded section comes after a section that is not loaded.
#[test]
fn loaded_sections_come_first() {
    for (kind, old) in programs("order") {
        let new = embedded(&old);
        let file = ElfFile64::<Endianness>::parse(&new[..]).unwrap();
        let endian = file.endian();
        let sections = file.elf_header().sections(endian, &*new).unwrap();
        let (mut loaded_end, mut others) = (0, u64::MAX);
        for section in sections.iter().filter(|section| section.sh_size(endian) != 0) {
            let (start, size) = (section.sh_offset(endian), section.sh_size(endian));
            match section.sh_type(endian) {
                elf::SHT_NULL | elf::SHT_NOBITS => {}
                _ if section.sh_flags(endian).contains(elf::SHF_ALLOC) => {
                    loaded_end = loaded_end.max(start + size);
                }
                _ => others = others.min(start),
            }
        }
        assert!(loaded_end <= others, "{kind}: {loaded_end:#x} {others:#x}");
    }
}

/// patchelf and Zig leave bytes without a header after the names of sections, and LIEF leaves zeros at the end.
#[test]
fn bytes_of_no_section_come_back() {
    const STRAY: [u8; 24] = [0x4f; 24];
    for (kind, old) in programs("strays") {
        let names = header(&old, ".shstrtab");
        let end = names.offset + names.size;
        let mut with = [&old[..end], &STRAY, &old[end..], &[0; 5]].concat();
        let mut add = |at: usize| {
            let field = u64::from_le_bytes(with[at..at + 8].try_into().unwrap()) + STRAY.len() as u64;
            with[at..at + 8].copy_from_slice(&field.to_le_bytes());
        };
        let is_after = u64::from_le_bytes(old[40..48].try_into().unwrap()) as usize >= end;
        for section in headers(&old).into_iter().filter(|section| section.offset >= end) {
            add(section.at + 24 + if is_after { STRAY.len() } else { 0 });
        }
        if is_after {
            add(40);
        }
        let new = embedded(&with);
        check_structure(&with, &new).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let back = stripped(&new).unwrap().unwrap();
        assert!(back == with, "{kind}: strip gives the file before");
        check_structure(&new, &back).unwrap_or_else(|error| panic!("{kind}, stripped: {error}"));
    }
}

/// eu-strip writes files of debug information with the program headers of the program. Their bytes are elsewhere.
#[test]
fn files_of_debug_information() {
    let text = ([LOAD, 5], [0x1000, 0x40_1000, 0x500, 0x500]);
    let of_program = program(&[text], &[(".text", [8, TEXT[1]], [0x40_1000, 0x1000, 0x500])], 0x210);
    assert!(matches!(stripped(&of_program), Err(EmbedError::NoContents { .. })));
    let of_data = program(&[text], &[(".rodata", [8, 2], [0x40_1000, 0x1000, 0x500])], 0x210);
    assert_eq!(stripped(&of_data), Ok(None));
}

/// Makes a program as LIEF changes it: a segment without a section at the end, and the names of sections before it. More
/// sections can follow `.text`, from offset 0x310 on.
fn of_lief(others: &[Section], extra: &[Segment]) -> Vec<u8> {
    let text = ([LOAD, 5], [0, 0x40_0000, 0x310, 0x310]);
    let added = ([LOAD, 4], [0x2000, 0x80_4000, 0x1000, 0x1000]);
    let sections = [&[(".text", TEXT, [0x40_0300, 0x300, 0x10])], others].concat();
    let mut bytes = program(&[&[text, added], extra].concat(), &sections, 0x3000);
    let names = header(&bytes, ".shstrtab");
    bytes.copy_within(names.offset..names.offset + names.size, 0x800);
    bytes[names.at + 24..][..8].copy_from_slice(&0x800_u64.to_le_bytes());
    let headers = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes.drain(0x3000..headers);
    bytes[40..48].copy_from_slice(&0x3000_u64.to_le_bytes());
    bytes
}

/// Embeds a table, and removes it again.
fn there_and_back(old: &[u8]) -> Vec<u8> {
    let new = embedded(old);
    check_structure(old, &new).unwrap();
    let back = stripped(&new).unwrap().unwrap();
    check_structure(&new, &back).unwrap();
    assert!(back == old, "strip gives the file before");
    new
}

#[test]
fn a_segment_without_a_section_after_the_names() {
    let new = there_and_back(&of_lief(&[(".comment", [1, 0], [0, 0x310, 0x20])], &[]));
    assert!(header(&new, ".sframe").offset < header(&new, ".comment").offset);
    // All sections have their names, which were written again.
    let names: Vec<_> = headers(&new).into_iter().map(|header| header.name).collect();
    assert_eq!(names, ["", ".text", ".comment", ".shstrtab", ".sframe"]);
}

/// `objcopy --add-section` with the flag `alloc` gives a section the address 0, where a segment loads other bytes.
#[test]
fn a_section_whose_address_is_that_of_other_bytes() {
    let old = of_lief(&[(".new", [1, 2], [0x40_0000, 0x310, 0x20])], &[]);
    there_and_back(&old);
    let mut new = embedded(&old);
    let bytes = header(&new, ".new").offset;
    new[bytes] ^= 1;
    let error = check_structure(&old, &new).unwrap_err();
    assert!(matches!(error, StructureError::SectionByte { offset: 0, .. }), "{error}");
}

/// patchelf 0.14 moves the note of properties, and leaves `PT_GNU_PROPERTY` where it was.
#[test]
fn a_program_header_for_properties_that_are_elsewhere() {
    const PROPERTIES: u32 = 0x6474_e553;
    there_and_back(&of_lief(&[], &[([PROPERTIES, 4], [0x2c0, 0x40_02c0, 0x20, 0x20])]));
}

/// A section symbol may have the index that the table gets. It is not the table's symbol.
#[test]
fn a_section_symbol_of_no_section() {
    let mut old = of_lief(&[(".symtab", [2, 0], [0, 0x310, 48])], &[]);
    let sections = headers(&old).len();
    let symbol = 0x310 + 24;
    old[symbol + 4] = 3;
    old[symbol + 6] = sections as u8;
    old[symbol + 8..symbol + 16].copy_from_slice(&0x40_0300_u64.to_le_bytes());
    there_and_back(&old);
}
