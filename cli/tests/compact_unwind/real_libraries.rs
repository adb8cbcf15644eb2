//! Tests archives of macOS packages. `tests/real-libraries/download DIR` fetches them, and the variable
//! `CFIPACK_MACOS_LIBRARIES` names the directory.

use std::path::{Path, PathBuf};

use cfipack_container::{File, members};
use cfipack_roundtrip::Options;
use cfipack_testkit::needs;

use super::edited::{edited, scratch};
use super::structure::assert_same_but_rows;

fn archives(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            archives(&path, found);
        } else if matches!(ending, Some("a" | "o" | "rlib")) {
            found.push(path);
        }
    }
}

#[test]
#[ignore = "needs CFIPACK_MACOS_LIBRARIES"]
fn archives_of_packages_download() {
    let what = "compact-unwind: archives of macOS packages";
    let directory = needs::directory("CFIPACK_MACOS_LIBRARIES", "tests/real-libraries/download DIR");
    let mut paths = Vec::new();
    archives(&directory, &mut paths);
    assert!(!paths.is_empty(), "{}: no archives", directory.display());
    let scratch = scratch("compact-unwind-archives");
    let (mut functions, mut gained, mut objects) = (0, 0, 0);
    for path in &paths {
        let old = std::fs::read(path).unwrap();
        let copy = scratch.join("copy.a");
        std::fs::write(&copy, &old).unwrap();
        let (new, json) = edited(&copy);
        functions += json["functions"].as_u64().unwrap();
        gained += json["gained"].as_u64().unwrap();
        let pairs = members(&old).unwrap().zip(members(&new).unwrap());
        for (old, new) in pairs {
            let (old, new) = (old.unwrap(), new.unwrap());
            assert_eq!(old.name, new.name, "{}", path.display());
            let Ok(file) = File::parse(new.bytes) else {
                assert!(new.bytes == old.bytes);
                continue;
            };
            if file.as_macho().is_none() {
                continue;
            }
            if file.arch().pointer_size() != 8 {
                assert!(new.bytes == old.bytes);
                continue;
            }
            objects += 1;
            let name = format!("{}: {:?}", path.display(), old.name);
            // Padding may count as part of the last member.
            assert_same_but_rows(old.bytes, new.bytes, &name);
            assert_true(&file, &name);
        }
    }
    println!("{what}: {} files, {objects} objects, {functions} functions, {gained} gain", paths.len());
    std::fs::remove_dir_all(scratch).unwrap();
}

/// Asserts that the rows agree with the CFI, as gimli evaluates it.
fn assert_true(file: &File<'_>, name: &str) {
    use cfipack_roundtrip::unwind_info::{Code, Entry, Table, verify};
    let code = file.code_sections().unwrap();
    let code = Code::new(code.iter().map(|section| (section.address, &section.bytes[..])));
    let compact = file.as_macho().unwrap().compact_unwind().unwrap();
    let rows = compact.iter().flat_map(|compact| &compact.rows).map(|row| Entry {
        start: row.function,
        end: row.function.offset(row.length.into()),
        encoding: row.encoding,
        personality: row.personality.map_or(0, |number| number.get().into()),
        lsda: row.lsda,
    });
    let table = Table::of_object(file.arch(), rows.collect(), code);
    let sections = file.call_frame_sections().unwrap();
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    let report = verify(&cfi, &table, &Options::default());
    assert!(report.is_true(), "{name}: {report:?}");
}
