//! Tests `gaps`, which lists code that no row covers.

use std::fs;

use serde_json::Value;

use crate::objects::{gas, printed};
use crate::program::scratch;

/// Writes a copy of `linked.so` with a table that ends `first` after 4 of its 11 bytes, at 0x287, and `second` after 1
/// of 2.
fn shortened(name: &str) -> String {
    let path = scratch(name).join("shortened");
    let mut bytes = fs::read("../corpora/container/linked.so").unwrap();
    for (entry, size, less) in [(3, 11, 4), (5, 2, 1)] {
        let field = 0x370 + 28 + entry * 16 + 8;
        assert_eq!(bytes[field], size);
        bytes[field] = less;
    }
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_string()
}

/// objdump shows nops between functions at 0x280 and 0x291.
#[test]
fn gaps_have_symbols_and_padding_is_told_apart() {
    let file = shortened("gaps");
    let expected = format!(
        "{file}: 40 of 48 bytes of code covered (83.33 %), 2 gaps of 8 bytes
  0x287..0x28e <first+0x4>: 7 bytes, .text
  0x290..0x291 <second+0x1>: 1 byte, .text
  padding: 2 bytes
"
    );
    assert_eq!(printed(1, &["gaps", &file]), expected);
    let all = printed(1, &["gaps", "--padding", &file]);
    for line in
        ["  0x280..0x281: 1 byte, .text, padding\n", "  0x291..0x292: 1 byte, .bolt.org.text, padding\n"]
    {
        assert!(all.contains(line), "{all}");
    }
    let covered = "48 of 48 bytes of code covered (100.00 %), 0 gaps of 0 bytes\n";
    assert!(printed(0, &["gaps", "--cfi", &file]).contains(covered));
    assert!(printed(0, &["gaps", "linked.so"]).contains(covered));
}

#[test]
fn gaps_in_json() {
    let json: Value =
        serde_json::from_str(&printed(1, &["gaps", "--json", &shortened("gaps_json")])).unwrap();
    assert_eq!(json["schema"], "cfipack/gaps/1");
    let counts = ["code", "covered", "gap_bytes", "padding_bytes"]
        .map(|key| json["code_coverage"][key].as_u64().unwrap());
    assert_eq!(counts, [50, 40, 8, 2]);
    let first = &json["gaps"][0];
    assert_eq!((&first["start"], &first["size"]), (&"0x287".into(), &7.into()));
    assert_eq!((&first["section"], &first["symbol"]), (&".text".into(), &"first+0x4".into()));
    assert_eq!(json["gaps"].as_array().unwrap().len(), 2);
}

/// In x_two_sections.s no byte lacks CFI. The second file has neither symbols nor sections to name a gap by.
#[test]
fn objects_and_files_without_sections_have_gaps_too() {
    assert!(printed(0, &["gaps", &gas("x_two_sections.gas247")]).contains("4 of 4 bytes"));
    assert!(printed(1, &["gaps", "sectionless.so"]).contains("  0x0..0x260: 608 bytes\n"));
}
