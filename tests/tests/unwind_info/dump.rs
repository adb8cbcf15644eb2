//! Compares dumps of `__unwind_info` and `__compact_unwind` with llvm-objdump 23's.

use cfipack_container::File;
use cfipack_decoder::{compact_unwind, unwind_info};
use cfipack_format::{ImageOffset, SectionOffset};
use cfipack_tests::corpora;

fn dump_table(image: &[u8]) -> String {
    let Some(section) = File::parse(image).unwrap().as_macho().unwrap().unwind_info_section().unwrap() else {
        return String::new();
    };
    let mut text = String::new();
    let summary = unwind_info::Section::parse(&section.bytes).unwrap().dump(&mut text).unwrap();
    assert_eq!(summary.errors, 0, "{:?}", summary.first);
    text
}

fn dump_rows(object: &[u8]) -> String {
    let file = File::parse(object).unwrap();
    let Some(rows) = file.as_macho().unwrap().compact_unwind().unwrap() else { return String::new() };
    let section = compact_unwind::Section::parse(&rows.section.bytes, file.arch().pointer_size()).unwrap();
    let mut text = String::new();
    let destination = |field: SectionOffset| {
        let referent = rows.referent(field)?;
        Some(compact_unwind::Destination { name: &referent.name, addend: referent.addend })
    };
    section.dump(&mut text, destination).unwrap();
    text
}

#[test]
fn images() {
    for link in corpora::compact_unwind_links() {
        assert!(dump_table(&link.image) == link.dump, "{}: {}", link.name, dump_table(&link.image));
    }
}

/// The linked objects have several functions, symbols, personalities and LSDAs in one section.
#[test]
fn objects() {
    for object in corpora::compact_unwind_objects() {
        assert_eq!(dump_rows(&object.object), object.dump, "{}", object.name);
    }
}

/// A lookup of an entry's first or last byte finds the entry. Lookups before and after the table find nothing.
#[test]
fn every_entry_is_found() {
    let mut found = 0;
    for link in corpora::compact_unwind_links() {
        let file = File::parse(&link.image).unwrap();
        let Some(section) = file.as_macho().unwrap().unwind_info_section().unwrap() else { continue };
        let table = unwind_info::Section::parse(&section.bytes).unwrap();
        let entries: Vec<_> = table.entries().map(Result::unwrap).collect();
        for entry in entries.iter().filter(|entry| entry.start < entry.end) {
            assert_eq!(table.lookup(entry.start), Ok(Some(*entry)), "{}", link.name);
            assert_eq!(table.lookup(ImageOffset(entry.end.0 - 1)), Ok(Some(*entry)), "{}", link.name);
            assert_eq!(table.lsda(entry).unwrap().is_some(), entry.encoding.has_lsda(), "{}", link.name);
            found += 1;
        }
        let (first, last) = (entries.first().unwrap(), entries.last().unwrap());
        assert_eq!(table.lookup(ImageOffset(first.start.0 - 1)), Ok(None));
        assert_eq!(table.lookup(last.end), Ok(None));
        assert_eq!(table.lookup(ImageOffset(u32::MAX)), Ok(None));
    }
    assert!(found > 20_000, "{found}");
}
