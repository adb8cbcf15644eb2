//! Tests `merge`, which makes one table of several.

use std::fs;
use std::path::{Path, PathBuf};

use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use serde_json::Value;

use crate::objects::printed;
use crate::program::{run, scratch};

/// The address of `linked.so`'s table. It has 190 bytes and 6 entries, two of them for the PLT.
const PLACE: u64 = 0x370;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the error message of a run.
fn error(arguments: &[&str]) -> String {
    let output = run(arguments);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    line.trim_end().trim_start_matches("error: ").to_string()
}

/// Concatenates the tables of `linked.so` in versions 2 and 3 for [`PLACE`], with zeros between them.
fn concatenation(directory: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    for version in ["2", "3"] {
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let (part, place) = (directory.join("part"), (PLACE + bytes.len() as u64).to_string());
        printed(
            0,
            &["linked.so", "--sframe-version", version, "--address", &place, "--section", text(&part)],
        );
        bytes.extend(fs::read(part).unwrap());
    }
    let path = directory.join("both");
    fs::write(&path, bytes).unwrap();
    path
}

/// For every PC of `linked.so` the merged table gives the row of each input table, which is the row of the CFI.
#[test]
fn a_concatenation_becomes_one_sorted_table() {
    let directory = scratch("concatenation");
    let both = concatenation(&directory);
    let (merged, place) = (directory.join("merged"), &PLACE.to_string());
    let json = printed(0, &["merge", text(&both), "--address", place, "--section", text(&merged), "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "cfipack/merge/1");
    let versions: Vec<_> = json["inputs"].as_array().unwrap().iter().map(|input| &input["version"]).collect();
    assert_eq!(versions, [2, 3]);
    assert_eq!((&json["functions"], &json["omitted"]), (&6.into(), &0.into()));
    assert_eq!((&json["address"], &json["version"]), (&"0x370".into(), &3.into()));

    let bytes = fs::read(&merged).unwrap();
    assert_eq!(json["bytes"], bytes.len());
    let table = Section::parse(&bytes, Address(PLACE)).unwrap();
    table.validate().unwrap();
    assert!(table.is_sorted());
    let verified = printed(0, &["verify", "linked.so", "--sframe", text(&merged), "--address", place]);
    assert!(verified.contains("functions: 5 equal, 0 different, 0 missing"), "{verified}");
}

#[test]
fn bare_tables_have_their_own_places() {
    let directory = scratch("bare");
    let [one, two, merged] = ["one", "two", "merged"].map(|name| directory.join(name));
    printed(0, &["linked.so", "--address", "0x1000", "--section", text(&one)]);
    printed(0, &["linked.so", "--address", "0x3000", "--section", text(&two), "--sframe-version", "2"]);
    let bare = ["merge", text(&one), text(&two), "--address", "0x1000", "--address", "0x3000"];
    printed(0, &[&bare[..], &["--place", "0x5000", "--section", text(&merged)]].concat());
    let verified = printed(0, &["verify", "linked.so", "--sframe", text(&merged), "--address", "0x5000"]);
    assert!(verified.contains("functions: 5 equal, 0 different, 0 missing"), "{verified}");
    let more = error(&[&bare[..], &["--address", "1"]].concat());
    assert_eq!(more, "--address: there are fewer bare .sframe sections than addresses");
}

/// The section header states the new size of the table. The rest of the file stays as it is.
#[test]
fn a_smaller_table_takes_the_place_of_the_files_own() {
    let directory = scratch("in_place");
    let [merged, larger] = ["merged", "larger"].map(|name| directory.join(name));
    printed(0, &["merge", "linked.so", "-o", text(&merged)]);
    let verified = printed(0, &["verify", text(&merged)]);
    assert!(verified.contains("functions: 5 equal, 0 different, 0 missing"), "{verified}");
    let [old, new] = [fs::read("../corpora/container/linked.so").unwrap(), fs::read(&merged).unwrap()];
    assert_eq!(old.len(), new.len());
    let differing: Vec<_> = (0..old.len()).filter(|&at| old[at] != new[at]).collect();
    let section = PLACE as usize..PLACE as usize + 190;
    let outside: Vec<_> = differing.into_iter().filter(|at| !section.contains(at)).collect();
    // The lowest byte of `sh_size` changes from 190 to 174.
    assert_eq!(outside.len(), 1);
    assert_eq!((old[outside[0]], new[outside[0]]), (190, 174));
    assert_eq!(new[PLACE as usize + 174..section.end], [0; 16]);

    let refused = error(&["merge", text(&merged), "-o", text(&larger), "--sframe-version", "2"]);
    let room =
        "-o: section .sframe has 174 bytes, the merged table 178: use --section, or --sframe-version 2";
    assert!(refused.ends_with(room), "{refused}");
    assert!(!larger.exists());
}

#[test]
fn what_cannot_be_merged_is_refused_by_name() {
    let directory = scratch("refused");
    let (damaged, out) = (directory.join("damaged"), directory.join("out"));
    let mut bytes = fs::read(concatenation(&directory)).unwrap();
    let second = bytes.len() - 170;
    let magic = (0..bytes.len()).rev().find(|&at| bytes[at..].starts_with(&[0xe2, 0xde])).unwrap();
    assert!(second.abs_diff(magic) < 20);
    bytes[magic + 2] = 9;
    fs::write(&damaged, bytes).unwrap();
    let refused = error(&["merge", text(&damaged), "--section", text(&out)]);
    let expected = format!("section .sframe: table at offset {magic:#x}: offset 0x2: unknown version 9");
    assert!(refused.ends_with(&expected), "{refused}");
    let cases: [(&[&str], &str); 6] = [
        (
            &["linkable.o"],
            "linkable.o: a relocatable object, whose table has no addresses: a linker merges it",
        ),
        (&["at_zero"], "at_zero: there is no .sframe table in the input"),
        (&["linked.so", "--place", "1"], "--place: without --section no bytes are written"),
        (&["linked.so", "--section", "linked.so"], "linked.so: --section would overwrite the input"),
        (
            &["linked.so", "sectionless.so", "-o", "x"],
            "-o: of several files no one has room for all tables: write them with --section",
        ),
        (
            &["sectionless.so", "-o", "x"],
            "sectionless.so: -o: the file has no section headers: use --section",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(error(&[&["merge"], arguments].concat()), expected);
    }
    assert!(!out.exists());
}
