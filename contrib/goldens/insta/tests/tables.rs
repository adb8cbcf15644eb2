//! The rows of generated functions as snapshots, and the tables against their call frame information.

use std::fmt::Write as _;

use cfipack::assembler::{Assembly, Target};
use cfipack::decoder::sframe::Section;
use cfipack::encoder::sframe::Options;
use cfipack::format::cfi::{self, SectionKind};
use cfipack::format::{Address, Arch, Key};
use cfipack::roundtrip::words::Words;
use cfipack::roundtrip::{self, Table, verify};

/// Where the function, its `.eh_frame` and its table are. No snapshot has these.
const CODE: Address = Address(0x1000);
const EH_FRAME: Address = Address(0x2000);
const TABLE: Address = Address(0x3000);

/// The `.eh_frame` and the table of the function.
fn sections() -> (Vec<u8>, Vec<u8>) {
    let (_, directives) = goldens::frame();
    let mut assembly = Assembly::new(Arch::Amd64);
    assembly.push(Key(1), &directives).expect("directives with a meaning");
    let eh_frame = assembly.eh_frame().expect("a section");
    let eh_frame = eh_frame.to_vec(EH_FRAME, |target| match target {
        Target::Function(_) => CODE,
        other => panic!("no such target: {other:?}"),
    });
    let sframe = assembly.sframe(Options::default()).expect("a section");
    (
        eh_frame.expect("addresses in reach"),
        sframe.section.into_bytes(TABLE, |_| CODE).expect("addresses in reach"),
    )
}

/// The rows of a table in words, by offsets from the starts of functions.
fn rows(table: &Section<'_>) -> String {
    let mut text = String::new();
    for function in table.functions() {
        let function = function.expect("a function");
        writeln!(text, "{} bytes", function.size()).unwrap();
        for row in function.rows() {
            let row = row.expect("a row");
            writeln!(text, "  +{}: {}", row.start, Words(table.arch(), row)).unwrap();
        }
    }
    text
}

#[test]
fn frame_has_its_rows() {
    let (_, table) = sections();
    let table = Section::parse(&table, TABLE).expect("a table");
    insta::assert_snapshot!(rows(&table));
}

#[test]
fn table_equals_the_call_frame_information() {
    let (eh_frame, table) = sections();
    let section = cfi::Section::new(SectionKind::EhFrame, &eh_frame, EH_FRAME, Arch::Amd64);
    let table = [Section::parse(&table, TABLE).expect("a table")];
    let report = verify(&[section], &Table::new(&table), &roundtrip::Options::default());
    assert!(report.is_complete() && report.equal == 1, "{:?}", report.differences);
}
