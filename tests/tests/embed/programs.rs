//! Programs and libraries of every linker at hand: with a table they run as before, and without it again they are the
//! original files.

use std::collections::BTreeMap;

use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use cfipack_tests::embedded::embed;
use cfipack_tests::reference::Tools;

use crate::linked::{KINDS, link, loaded_table, run, scratch, tools, with_table, without_table};

#[test]
fn linked_files_run_as_before() {
    let directory = scratch("programs");
    let readelf = Tools::find("what readelf reads of files with tables");
    let mut ways = BTreeMap::<String, usize>::new();
    for (number, linker) in tools().0.iter().enumerate() {
        for (kind, object, options) in KINDS {
            for strip in [false, true] {
                let path = directory.join(format!("{kind}-{number}-{strip}"));
                let what = format!("{kind} by {}, stripped: {strip}", linker.name);
                let stripped: &[&str] = if strip { &["-s"] } else { &[] };
                let Some(old) = link(linker, &path, object, &[options, stripped].concat()) else { continue };
                let is_library = kind.starts_with("library");
                let before = run(&path, &old, is_library);
                let (new, embedded) = with_table(&old);
                assert_eq!(run(&path, &new, is_library), before, "{what}, {:?}", embedded.way);
                assert_eq!(
                    loaded_table(&new),
                    Some((embedded.address.0, &embedded.table[..])),
                    "{what}, {:?}",
                    embedded.way
                );
                let read_back = File::parse(&new).expect("a linked file");
                let again = embed(&read_back, Options::new()).expect("call frame information");
                assert!(again.expect("a place").rewrite.is_unchanged(&new), "{what}: a second run");
                assert!(without_table(&new) == old, "{what}, {:?}: not the original", embedded.way);
                if let Some(readelf) = readelf.as_ref().filter(|_| !strip) {
                    readelf.write("new", &new);
                    readelf.write("old", &old);
                    let warnings = |name| {
                        let output = readelf.run(&["readelf", "-lSdW", "--sframe", name]);
                        let text = String::from_utf8_lossy(&output.stderr).into_owned();
                        // The original has no table to print.
                        let text = text.lines().filter(|line| !line.contains("'.sframe'"));
                        text.map(str::to_owned).collect::<Vec<_>>()
                    };
                    assert_eq!(warnings("new"), warnings("old"), "{what}");
                }
                *ways.entry(format!("{:?}", embedded.way)).or_default() += 1;
            }
        }
    }
    println!("{ways:#?}");
    assert!(ways.values().sum::<usize>() >= 20, "enough has been linked: {ways:?}");
    assert!(ways.len() >= 3, "several ways have been taken: {ways:?}");
}
