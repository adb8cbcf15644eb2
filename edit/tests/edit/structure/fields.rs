//! Changes each kind of field of an edited program, and checks the error for the wrong value.

use cfipack_roundtrip::structure::{StructureError, check_structure};
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use super::programs::{Programs, programs, programs_of_cc};
use super::{embedded, header};

/// Returns the offset of the program header of a kind.
fn segment(bytes: &[u8], kind: elf::ProgramType) -> usize {
    let file = FileHeader64::<Endianness>::parse(bytes).unwrap();
    let endian = file.endian().unwrap();
    let segments = file.program_headers(endian, bytes).unwrap();
    64 + 56 * segments.iter().position(|segment| segment.p_type(endian) == kind).unwrap()
}

/// Returns the error for an edited program with another value in a field of 4 or 8 bytes.
fn error(old: &[u8], new: &[u8], at: usize, value: &[u8]) -> StructureError {
    let mut new = new.to_vec();
    new[at..at + value.len()].copy_from_slice(value);
    check_structure(old, &new).unwrap_err()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

const KINDS: [elf::ProgramType; 5] =
    [elf::PT_GNU_EH_FRAME, elf::PT_DYNAMIC, elf::PT_GNU_RELRO, elf::PT_GNU_STACK, elf::PT_TLS];

#[test]
fn program_headers_lead_where_they_led() {
    // These programs have no thread-local data.
    program_headers(programs("segments"), &KINDS[..4]);
}

#[test]
#[ignore = "needs gcc"]
fn program_headers_of_other_linkers_lead_where_they_led() {
    program_headers(programs_of_cc("segments"), &KINDS);
}

fn program_headers(programs: Programs, kinds: &[elf::ProgramType]) {
    for (name, old) in programs {
        let new = embedded(&old);
        for &kind in kinds {
            let at = segment(&new, kind);
            for (field, offset) in
                [("p_vaddr", 16), ("p_offset", 8), ("p_filesz", 32), ("p_memsz", 40), ("p_align", 48)]
            {
                let value = number(&new, at + offset) + 0x10;
                let error = error(&old, &new, at + offset, &value.to_le_bytes());
                let StructureError::Segment { index, field: found, new: is, .. } = error else {
                    panic!("{name}: {kind:?} {field}: {error}")
                };
                assert_eq!((64 + 56 * index, found, is), (at, field, value), "{name}: {kind:?}");
            }
        }
    }
}

#[test]
fn the_table_s_segment_covers_it() {
    for (name, old) in programs("table") {
        let new = embedded(&old);
        let at = segment(&new, elf::PT_GNU_SFRAME);
        for offset in [8, 16, 24, 40, 48] {
            let value = number(&new, at + offset) + 8;
            let error = error(&old, &new, at + offset, &value.to_le_bytes());
            assert!(matches!(error, StructureError::Table { .. }), "{name}: {offset}: {error}");
        }
        // If the program header has another type, no header leads to the table.
        let error = error(&old, &new, at, &0_u32.to_le_bytes());
        assert!(
            matches!(error, StructureError::Segment { field: "p_type", .. } | StructureError::Table { .. }),
            "{name}: {error}"
        );
    }
}

/// Section 0 is no section. The error names the field of its header that differs, with both values.
#[test]
fn the_header_of_section_0_stays() {
    for (name, old) in programs("section_0") {
        let new = embedded(&old);
        let at = number(&new, 0x28) as usize;
        let fields =
            [("sh_addr", 16), ("sh_offset", 24), ("sh_size", 32), ("sh_addralign", 48), ("sh_entsize", 56)];
        for (field, offset) in fields {
            let error = error(&old, &new, at + offset, &64_u64.to_le_bytes());
            let expected = StructureError::Section { index: 0, field, old: 0, new: 64 };
            assert_eq!(error, expected, "{name}");
        }
    }
}

#[test]
fn dynamic_entries_lead_where_they_led() {
    dynamic_entries(programs("dynamic"));
}

#[test]
#[ignore = "needs gcc"]
fn dynamic_entries_of_other_linkers_lead_where_they_led() {
    assert!(dynamic_entries(programs_of_cc("dynamic")) >= 2, ".gnu.hash did not move");
}

/// Returns the number of programs in which `.gnu.hash` moved. Other programs have enough room without its place.
fn dynamic_entries(programs: Programs) -> usize {
    let mut count = 0;
    for (name, old) in programs {
        let new = embedded(&old);
        let section = header(&new, ".dynamic");
        for (index, at) in (section.offset..section.offset + section.size).step_by(16).enumerate() {
            for (field, offset) in [("d_tag", 0), ("d_val", 8)] {
                let value = number(&new, at + offset) + 1;
                let error = error(&old, &new, at + offset, &value.to_le_bytes());
                let what = format!("{name}: entry {index}: {error}");
                match error {
                    StructureError::Item { index: found, field: of, new: is, .. } => {
                        assert_eq!((found, of, is), (index, field, value), "{what}")
                    }
                    // If no section has moved, the check compares the dynamic section byte by byte.
                    StructureError::SectionByte { offset: byte, .. } => {
                        let field = (at + offset - section.offset) as u64;
                        assert!(name == "fixed" && (field..field + 8).contains(&byte), "{what}");
                    }
                    _ => panic!("{what}"),
                }
            }
        }
        // The old place of a section that moved.
        let moved = check_structure(&old, &new).unwrap().moved;
        let is_hash = |at: &usize| number(&new, *at) == elf::DT_GNU_HASH.0 as u64;
        let hash = (section.offset..section.offset + section.size).step_by(16).find(is_hash).unwrap();
        let place = moved.iter().find(|section| section.new == number(&new, hash + 8));
        let Some(place) = place else { continue };
        count += 1;
        let error = error(&old, &new, hash + 8, &place.old.to_le_bytes());
        assert!(
            matches!(error, StructureError::Item { old, new, .. } if (old, new) == (place.new, place.old)),
            "{name}"
        );
    }
    count
}

#[test]
fn symbols_move_with_their_sections() {
    for (name, old) in programs("symbols") {
        let new = embedded(&old);
        let section = header(&new, ".symtab");
        for (index, at) in (section.offset..section.offset + section.size).step_by(24).enumerate() {
            let value = number(&new, at + 8) + 1;
            let error = error(&old, &new, at + 8, &value.to_le_bytes());
            let expected =
                StructureError::Item { section: 0, index, field: "st_value", old: value - 1, new: value };
            let StructureError::Item { index, field, old, new, .. } = error else {
                panic!("{name}: {error}")
            };
            assert_eq!(StructureError::Item { section: 0, index, field, old, new }, expected, "{name}");
        }
    }
}
