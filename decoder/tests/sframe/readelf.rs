//! The text dump against what `readelf --sframe` printed for the same object.

use std::fs;
use std::path::{Path, PathBuf};

use cfipack_decoder::sframe::{Section, dump};
use cfipack_format::Address;

use crate::elf;

/// Every object under `corpora/sframe` beside which a golden lies.
pub fn objects() -> Vec<(PathBuf, String)> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe");
    let mut found = Vec::new();
    for arch in fs::read_dir(&corpora).expect("corpora/sframe") {
        for entry in fs::read_dir(arch.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "o") {
                if let Ok(golden) = fs::read_to_string(path.with_extension("readelf")) {
                    found.push((path, golden));
                }
            }
        }
    }
    found.sort();
    assert!(found.len() > 500, "{} goldens", found.len());
    found
}

#[test]
fn dump_is_what_readelf_prints() {
    for (path, golden) in objects() {
        let file = fs::read(&path).unwrap();
        let bytes = elf::sframe(&file).expect("a golden, so a section");
        let section = Section::parse(&bytes, Address(0)).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let mut text = String::new();
        dump(&section, ".sframe", &mut text).unwrap();
        assert_eq!(text, golden, "{path:?}");
        section.validate().unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
}
