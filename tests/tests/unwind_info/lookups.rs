//! Looks up every entry of `__unwind_info` that ld64.lld wrote.

use cfipack_container::File;
use cfipack_decoder::unwind_info;
use cfipack_format::ImageOffset;
use cfipack_tests::corpora;

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
