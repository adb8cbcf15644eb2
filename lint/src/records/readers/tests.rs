//! The bytes are those of `tests/readers/constructs.py`, which readers were run on.

use std::collections::BTreeSet;

use cfipack_cfi::{Functions, Section, SectionKind};
use cfipack_container::{File, Placement};
use cfipack_format::{Address, Arch};

use super::constructs::Constructs;
use super::{Readers, lines};

/// Where the test's functions are: the first code of this file.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpora/container/linked.so");

/// Returns the constructs of the last function in a section, with those of its CIE.
fn found(arch: Arch, name: &str, bytes: &[u8]) -> Vec<&'static str> {
    let file = std::fs::read(FILE).unwrap();
    let file = File::parse_with(&file, Placement::Apart).unwrap();
    let section = Section::new(SectionKind::EhFrame, bytes, Address(0), arch);
    let mut constructs = Constructs::new(&file, &section, name);
    let all =
        Functions::new(&section).map(|function| constructs.of(&function.unwrap(), true).unwrap().0.to_vec());
    all.last().unwrap()
}

fn code() -> u64 {
    let file = std::fs::read(FILE).unwrap();
    File::parse_with(&file, Placement::Apart).unwrap().code_sections().unwrap()[0].address.0
}

fn record(id: usize, body: &[u8]) -> Vec<u8> {
    let body = [&(id as u32).to_le_bytes(), body, &vec![0; body.len().wrapping_neg() % 4]].concat();
    [&(body.len() as u32).to_le_bytes(), &body[..]].concat()
}

/// A CIE with this version, these letters and their data, and a data alignment factor.
fn cie(version: u8, letters: &[u8], data: &[u8], factor: u8) -> Vec<u8> {
    let sizes: &[u8] = if version == 4 { &[8, 0] } else { &[] };
    let sized = if letters.is_empty() { Vec::new() } else { [&[data.len() as u8], data].concat() };
    let instructions = [0x0c, 7, 8, 0x90, 1];
    record(0, &[&[version], letters, &[0], sizes, &[1, factor, 16], &sized, &instructions].concat())
}

/// Adds an FDE with the usual encoding, of the CIE at the start.
fn add(section: &mut Vec<u8>, start: u64, size: u32, data: &[u8], instructions: &[u8]) {
    let here = section.len();
    let start = (start as u32).wrapping_sub(here as u32 + 8).to_le_bytes();
    let body = [&start[..], &size.to_le_bytes(), &[data.len() as u8], data, instructions].concat();
    section.extend(record(here + 4, &body));
}

/// Constructs of an FDE's instructions.
const AMD64: [(&[u8], &str); 22] = [
    (&[0x07, 16], "undefined-return-address"),
    (&[0x07, 12], "undefined-register"),
    (&[0x08, 12], "same-value"),
    (&[0x14, 14, 16], "val-offset"),
    (&[0x16, 13, 2, 0x23, 0], "val-expression"),
    (&[0x16, 16, 3, 0x38, 0x1c, 0x06], "return-address-val-expression"),
    (&[0x10, 3, 2, 0x40, 0x1c], "expression"),
    (&[0x0f, 3, 0x77, 0xc0, 0], "cfa-expression"),
    (&[0x0f, 4, 0x77, 8, 0x23, 6], "cfa-expression"),
    (&[0x0f, 3, 0x77, 40, 0x06], "cfa-from-memory"),
    (&[0x0f, 5, 0x77, 40, 0x06, 0x23, 8], "cfa-from-memory"),
    (&[0x09, 3, 12], "register"),
    (&[0x09, 16, 12], "return-address-in-register"),
    (&[0x2e, 16], "args-size"),
    (&[0x12, 7, 0x78], "def-cfa-sf"),
    (&[0x2f, 3, 2], "gnu-negative-offset"),
    (&[0x05, 3, 2], "extended-forms"),
    (&[0x97, 5], "vector-register"),
    (&[0x05, 71, 5], "high-column"),
    (&[0x8c, 3, 0xcc], "restore-without-rule"),
    (&[0x0a, 0x41, 0x0c, 12, 24, 0x41, 0x0b], "remembered-cfa"),
    (&[0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b], "remembered-five-deep"),
];
const AARCH64: [(&[u8], &str); 3] = [
    (&[0x2d], "aarch64-negate-ra-state"),
    (&[0x2c], "aarch64-negate-ra-state-with-pc"),
    (&[0x2b, 1, 0], "aarch64-set-ra-state"),
];
/// The usual form, and what is no construct: `restore` of a CIE's rule, states that are not nested, `offset_extended_sf`, and
/// rules of registers that no call keeps.
const NONE: [&[u8]; 8] = [
    &[0x41, 0x0e, 16, 0x83, 2, 0x48, 0x0e, 64, 0x4e, 0x0e, 16, 0x41, 0x0e, 8],
    &[0x41, 0xd0],
    &[0x0a, 0x0b, 0x0a, 0x0b, 0x0a, 0x0b, 0x0a, 0x0b, 0x0a, 0x0b],
    &[0x11, 3, 2],
    &[0x07, 0],
    &[0x10, 0, 2, 0x40, 0x1c],
    &[0x09, 16, 2],
    &[0x09, 3, 1],
];
/// The version, letters, data and factor of a CIE, and its construct.
type Cie = (u8, &'static [u8], &'static [u8], u8, &'static str);
const CIES: [Cie; 15] = [
    (3, b"zR", &[0x1b], 0x78, "cie-version-3"),
    (4, b"zR", &[0x1b], 0x78, "cie-version-4"),
    (1, b"zLR", &[0xff, 0x1b], 0x78, "lsda-omitted"),
    (1, b"zPLR", &[0x9b, 1, 0, 0, 0, 0x1b, 0x1b], 0x78, "personality-and-lsda"),
    (1, b"zPR", &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0x1b], 0x78, "personality-absptr"),
    (1, b"zRS", &[0x1b], 0x78, "signal-frame"),
    (1, b"zRB", &[0x1b], 0x78, "aarch64-b-key"),
    (1, b"zRG", &[0x1b], 0x78, "aarch64-mte"),
    (1, b"", &[], 0x78, "no-augmentation"),
    (1, b"z", &[], 0x78, "augmentation-without-R"),
    (1, b"zR", &[0], 0x78, "pointers-absptr"),
    (1, b"zR", &[3], 0x78, "pointers-udata4"),
    (1, b"zR", &[0x0c], 0x78, "pointers-sdata8"),
    (1, b"zR", &[0x1c], 0x78, "pointers-pcrel-sdata8"),
    (1, b"zR", &[0x1b], 8, "data-factor-8"),
];

/// Returns the constructs that are found in each input, and those that it shows.
fn cases() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let usual = || cie(1, b"zR", &[0x1b], 0x78);
    let mut cases = Vec::new();
    let arches = [(Arch::Amd64, &AMD64[..]), (Arch::Aarch64, &AARCH64)];
    let shown =
        arches.iter().flat_map(|(arch, cases)| cases.iter().map(|case| (*arch, case.0, Some(case.1))));
    for (arch, bytes, construct) in shown.chain(NONE.map(|bytes| (Arch::Amd64, bytes, None))) {
        let mut section = usual();
        add(&mut section, code(), 64, &[], bytes);
        cases.push((found(arch, ".eh_frame", &section), construct.into_iter().collect()));
    }
    for (version, letters, data, factor, construct) in CIES {
        let arch = if construct.starts_with("aarch64") { Arch::Aarch64 } else { Arch::Amd64 };
        let mut section = cie(version, letters, data, factor);
        section.extend(record(section.len() + 4, &[0; 24]));
        cases.push((found(arch, ".eh_frame", &section), vec![construct]));
    }
    let mut case = |name, section: &[u8], shown: &[&'static str]| {
        cases.push((found(Arch::Amd64, name, section), shown.to_vec()));
    };
    let mut section = usual();
    add(&mut section, code(), 64, &[], &[]);
    case("__eh_frame", &section, &[]);
    case(".frames", &section, &["section-renamed"]);
    add(&mut section, code(), 64, &[], &[]);
    case(".eh_frame", &section, &["equal-fdes"]);
    add(&mut section, code(), 64, &[], &[0x0e, 16]);
    case(".eh_frame", &section, &[]);
    let mut section = usual();
    add(&mut section, code(), 0, &[], &[]);
    case(".eh_frame", &section, &[]);
    add(&mut section, code(), 64, &[], &[]);
    case(".eh_frame", &section, &["empty-fde-before"]);
    let mut section = usual();
    add(&mut section, code(), 64, &[0; 4], &[]);
    case(".eh_frame", &section, &["longer-augmentation-data"]);
    let mut section = [usual(), vec![0; 4]].concat();
    add(&mut section, code(), 64, &[], &[]);
    case(".eh_frame", &section, &["terminator-before"]);
    // Without another terminator, the next function shows nothing. After another, it does.
    add(&mut section, code() + 64, 64, &[], &[]);
    case(".eh_frame", &section, &[]);
    section.extend([0; 4]);
    add(&mut section, code() + 128, 64, &[], &[]);
    case(".eh_frame", &section, &["terminator-before"]);
    let mut section = record(0, &[1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b]);
    add(&mut section, code(), 64, &[], &[0x0c, 7, 8, 0x90, 1]);
    case(".eh_frame", &section, &["cie-without-instructions"]);
    // A trampoline, and one with an FDE before.
    let frame = [0x0e, 64];
    let mut section = cie(1, b"zRS", &[0x1b], 0x78);
    add(&mut section, code(), 64, &[], &frame);
    case(".eh_frame", &section, &["signal-frame", "signal-frame-first-byte"]);
    add(&mut section, code() - 16, 16, &[], &[]);
    add(&mut section, code(), 64, &[], &frame);
    case(".eh_frame", &section, &["signal-frame", "signal-frame-first-byte-after-code"]);
    // The FDE starts in the padding before the trampoline.
    let mut section = cie(1, b"zRS", &[0x1b], 0x78);
    add(&mut section, code() | 15, 64, &[], &frame);
    case(".eh_frame", &section, &["signal-frame"]);
    // `set_loc` with the encoding of the FDE.
    let mut section = cie(1, b"zR", &[0], 0x78);
    let body =
        [&0x1000_u64.to_le_bytes()[..], &[64, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 16, 0, 0, 0, 0, 0, 0]].concat();
    section.extend(record(section.len() + 4, &body));
    case(".eh_frame", &section, &["pointers-absptr", "set-loc-absolute"]);
    let mut section = usual();
    add(&mut section, code(), 64, &[], &[1, 4, 0, 0, 0]);
    case(".eh_frame", &section, &[]);
    cases
}

#[test]
fn inputs_show_their_constructs() {
    for (found, shown) in cases() {
        assert_eq!(found, shown);
    }
}

/// An unknown instruction, and a state that was not remembered.
#[test]
fn a_function_with_unreadable_instructions_is_not_decided() {
    let file = std::fs::read(FILE).unwrap();
    let file = File::parse_with(&file, Placement::Apart).unwrap();
    for instructions in [[0x3f], [0x0b]] {
        let mut bytes = cie(1, b"zR", &[0x1b], 0x78);
        add(&mut bytes, code(), 64, &[], &instructions);
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let function = Functions::new(&section).next().unwrap().unwrap();
        assert!(Constructs::new(&file, &section, ".eh_frame").of(&function, true).is_err());
    }
}

/// A construct of the table that is never found says why, and none is found that the table does not have.
#[test]
fn the_table_has_the_constructs_that_are_found() {
    let found: BTreeSet<_> = cases().into_iter().flat_map(|(found, _)| found).collect();
    let described: Vec<_> = lines(Some("=")).collect();
    let visible = described.iter().filter(|[_, _, _, unseen, _]| unseen.is_empty());
    assert_eq!(visible.map(|[construct, ..]| *construct).collect::<BTreeSet<_>>(), found);
    let run: BTreeSet<_> = lines(None).map(|[construct, ..]| construct).collect();
    assert_eq!(described.iter().map(|[construct, ..]| *construct).collect::<BTreeSet<_>>(), run);
}

#[test]
fn words_name_readers_versions_and_outcomes() {
    let all = Readers::named(&[]).unwrap();
    let words = all.0.get("cie-version-4").unwrap();
    assert!(words.starts_with("CIE of version 4 (--gdwarf-cie-version=4): "), "{words}");
    assert!(words.contains("; ld.lld 14.0.6, 23.1.4 refuses the file (corrupted .eh_frame: "), "{words}");
    assert!(
        words.ends_with(". Write version 1 or 3 in .eh_frame; version 4 belongs into .debug_frame."),
        "{words}"
    );
    let one = Readers::named(&["ld.lld".to_owned()]).unwrap();
    assert!(!one.0.get("cie-version-4").unwrap().contains("libunwind"));
    assert!(Readers::named(&["nobody".to_owned()]).unwrap_err().contains(&"ld.lld"));
    // Each program has the construct, so only those who name a reader hear of it.
    assert!(!all.0.contains_key("remembered-cfa"));
    assert!(Readers::named(&["llvm-dwarfdump".to_owned()]).unwrap().0.contains_key("remembered-cfa"));
    // No construct is named where a reader ends by a signal, and no word is about the programs of the runs.
    assert!(lines(None).all(|[_, _, _, outcome, _]| outcome != "crashes"));
    let ours = ["mid", "outer", "beside", "_dl_catch_error", "0x1"];
    assert!(all.0.values().all(|words| !words.split(' ').any(|word| ours.contains(&word))));
}
