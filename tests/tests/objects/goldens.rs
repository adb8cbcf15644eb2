//! Removes gas's table from each golden, and embeds it again.

use cfipack_container::File;
use cfipack_edit::{StartRelocation, embed_in_object, without_sframe};
use cfipack_tests::corpora::{self, Golden};
use cfipack_tests::embedded_objects::{embed, stripped};
use cfipack_tests::gnu;
use object::{Object as _, ObjectSection as _};

use crate::seen::seen;

/// Returns a tool's own table, its starts, and the number of its section.
fn table(golden: &Golden) -> Option<(Vec<u8>, Vec<StartRelocation>, usize)> {
    let file = File::parse(&golden.object).unwrap();
    let index = file.sframe_sections().unwrap().first()?.index.unwrap();
    let relocations = file.relocations(index).unwrap().into_iter();
    let starts = relocations.map(|relocation| StartRelocation {
        offset: relocation.offset as u32,
        section: relocation.section.expect("a section"),
        addend: relocation.value + relocation.addend as u64,
    });
    let bytes = object::File::parse(&*golden.object).unwrap();
    let bytes = bytes.section_by_index(object::SectionIndex(index)).unwrap().data().unwrap().to_vec();
    Some((bytes, starts.collect(), index))
}

#[test]
fn a_table_of_gas_put_back_is_as_gas_wrote_it() {
    for (tool, at_least) in [("gas247", 200), ("gas244", 50), ("llvm23", 50)] {
        let mut checked = 0;
        for golden in corpora::sframe(tool) {
            let Some((bytes, starts, index)) = table(&golden) else { continue };
            let name = format!("{tool} {}", golden.name);
            let put = |object: &[u8]| {
                let file = File::parse(object).unwrap();
                let rewrite = embed_in_object(&file, &bytes, &starts);
                rewrite.unwrap_or_else(|error| panic!("{name}: {error}")).to_vec(object)
            };
            let in_place = put(&golden.object);
            if tool != "gas244" {
                assert_eq!(in_place, golden.object, "{name}: in its place");
            }
            let without = stripped(&golden.object);
            let file = File::parse(&without).unwrap();
            assert!(file.sframe_sections().unwrap().is_empty(), "{name}");
            assert!(without_sframe(&file).unwrap().is_none(), "{name}");
            // Sections after the table get other numbers, which the comparison cannot handle.
            if starts.iter().all(|start| start.section < index) {
                let with = put(&without);
                let (with, mut in_place) = (seen(&with), seen(&in_place));
                // LLVM marks the table as data by a symbol.
                in_place.1.retain(|symbol| !symbol.starts_with("$d .sframe+"));
                for (with, in_place) in with.0.iter().zip(&in_place.0) {
                    assert_eq!(with, in_place, "{name}");
                }
                assert_eq!(with, in_place, "{name}");
                let with = put(&without);
                assert_eq!(put(&with), with, "{name}: twice");
                assert_eq!(stripped(&with), without, "{name}: removed again");
                checked += 1;
            }
        }
        assert!(checked > at_least, "{tool}: {checked}");
    }
}

#[test]
fn layout_gnu_embedded_leaves_objects_of_gas_as_they_are() {
    let (mut same, mut other) = (0, 0);
    for golden in corpora::sframe("gas247") {
        if table(&golden).is_none() || gnu::GasObject::parse(&golden.object).unwrap().compare().is_err() {
            // gas is wrong about this golden; `sframe::gnu` lists it.
            other += 1;
            continue;
        }
        let Ok(Some(rewrite)) = embed(&golden.object, gnu::OPTIONS) else { continue };
        assert!(rewrite.is_unchanged(&golden.object), "{}", golden.name);
        same += 1;
    }
    assert!(same > 150 && other < 60, "{same}, {other}");
}
