//! The order of an edited file's bytes: a table comes before everything that is not loaded, and removal gives back all
//! bytes, with or without a header.

use cfipack_container::File;
use cfipack_edit::{EmbedError, without_sframe};
use cfipack_roundtrip::structure::check_structure;
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use super::programs::programs;
use super::unusual::{LOAD, TEXT, program};
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
