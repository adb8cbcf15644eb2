//! Tests files with several tables in a row, of which readers find the first.

use std::fs;

use cfipack_cfi::Functions;
use cfipack_container::File;
use cfipack_encoder::sframe::{Builder, Options};
use cfipack_format::{Address, Key};

use crate::compact::text;
use crate::objects::printed;
use crate::program::{corpus, run, scratch};

/// The address and the size of the table in `linked.so`, to which its `PT_GNU_SFRAME` leads.
const PLACE: u64 = 0x370;
const SIZE: usize = 190;

/// Writes `linked.so` with a table of one function in the place of its own, and after it, as GNU ld 2.40 and ld.lld leave
/// it, with a second table of the other functions.
fn two_tables(name: &str) -> String {
    let mut bytes = fs::read(corpus().join("linked.so")).unwrap();
    let mut tables = Vec::new();
    let file = File::parse(&bytes).unwrap();
    let sections = file.call_frame_sections().unwrap();
    let functions: Vec<_> = Functions::new(&sections[0].cfi()).map(Result::unwrap).collect();
    for some in [&functions[2..3], &functions[3..4]] {
        tables.resize(tables.len().next_multiple_of(8), 0);
        let mut builder = Builder::new(file.arch(), Options::new()).unwrap();
        some.iter().for_each(|function| builder.push(function).unwrap());
        let place = Address(PLACE + tables.len() as u64);
        tables.extend(builder.finish().into_bytes(place, Key::address).unwrap());
    }
    tables.resize(SIZE, 0);
    bytes[PLACE as usize..][..SIZE].copy_from_slice(&tables);
    let path = scratch(name).join("two.so");
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn verify_names_them_and_gaps_counts_what_readers_do_not_find() {
    let file = &two_tables("hidden_tables");
    let hidden = "1 table of 1 function that readers do not find";
    let verified = printed(1, &["verify", file]);
    assert!(verified.contains(&format!("\n  {hidden}: ")), "{verified}");
    let json: serde_json::Value = serde_json::from_str(&printed(1, &["verify", "--json", file])).unwrap();
    assert_eq!(json["hidden_tables"], serde_json::json!({ "tables": 1, "functions": 1 }));
    assert!(!printed(0, &["verify", "--json", "linked.so"]).contains("hidden_tables"));
    for verb in [&["gaps", file][..], &["stats", file], &["lookup", file, "0x27d"]] {
        let warning = text(run(verb).stderr);
        assert!(warning.starts_with(&format!("warning: {file}: {hidden}")), "{verb:?}: {warning}");
    }

    // A file with the first table alone has the same gaps.
    let first = format!("{file}.first");
    let mut bytes = fs::read(file).unwrap();
    let table = &mut bytes[PLACE as usize..][..SIZE];
    let second = (8..SIZE).find(|&at| table[at..].starts_with(&[0xe2, 0xde])).unwrap();
    table[second..].fill(0);
    fs::write(&first, bytes).unwrap();
    let gaps = |file: &str| printed(1, &["gaps", file]).replace(file, "");
    assert_eq!(gaps(file), gaps(&first));
}

/// The conversion makes one table, and `--skip-done` does not take the first for all.
#[test]
fn a_conversion_makes_one_table() {
    let file = &two_tables("hidden_converted");
    printed(0, &["--in-place", "--skip-done", file]);
    let verified = printed(0, &["verify", file]);
    assert!(verified.contains("functions: 5 equal, 0 different, 0 missing\n"), "{verified}");
    assert!(printed(0, &["gaps", file]).contains(" 0 gaps of 0 bytes\n"));
}
