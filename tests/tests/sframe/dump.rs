//! Compares dumps with `readelf --sframe` of binutils 2.47, byte for byte.

use cfipack_container::{File, Placement};
use cfipack_decoder::sframe::Section;
use cfipack_tests::corpora;

/// Dumps every golden table of every tool: versions 2 and 3, four targets, relocatable.
#[test]
fn goldens_print_as_readelf_printed_them() {
    let mut tables = 0;
    for tool in ["gas247", "gas244", "llvm23"] {
        for golden in corpora::sframe(tool) {
            // readelf shows every section of a relocatable object at address 0.
            let file = File::parse_with(&golden.object, Placement::Zero).unwrap();
            let sections = file.sframe_sections().unwrap();
            let Some(expected) = golden.readelf else {
                assert!(sections.is_empty(), "{}: a table that readelf did not see", golden.name);
                continue;
            };
            let [found] = &sections[..] else { panic!("{}: {} tables", golden.name, sections.len()) };
            let section = Section::parse(&found.bytes, found.address).unwrap();
            let mut text = String::new();
            section.dump(&mut text, &found.name).unwrap();
            similar(&golden.name, &text, &expected);
            section.validate().unwrap_or_else(|error| panic!("{}: {error}", golden.name));
            tables += 1;
        }
    }
    assert!(tables > 500, "only {tables} goldens have a table");
}

/// Fails with the first line that differs.
fn similar(name: &str, ours: &str, theirs: &str) {
    for (number, (our, their)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(our, their, "{name}: line {}", number + 1);
    }
    assert_eq!(ours, theirs, "{name}");
}
