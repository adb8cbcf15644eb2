use alloc::vec::Vec;

use cfipack_format::widen::ToU64;

use super::{MergeError, Tables};
use crate::decoder::sframe::{Error, Section};
use crate::encoder::sframe::Options;
use crate::format::{Address, Arch, Key, Reason};

/// Returns a table of version 3 at 0x2000. A function is its start, its size and the offset of its rows.
fn table(functions: &[(u64, u32, u32)], num_fres: u32, fres: &[u8]) -> Vec<u8> {
    let index = 16 * functions.len() as u32;
    let mut bytes = Vec::from([0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0]);
    for field in [functions.len() as u32, num_fres, fres.len() as u32, 0, index] {
        bytes.extend(field.to_le_bytes());
    }
    for (number, (start, size, at)) in functions.iter().enumerate() {
        let field = 0x2000 + 28 + 16 * number.to_u64();
        bytes.extend(start.wrapping_sub(field).to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(at.to_le_bytes());
    }
    bytes.extend(fres);
    bytes
}

/// An attribute with one row: CFA = sp + 8.
const LEAF: [u8; 8] = [1, 0, 0, 0, 0, 0, 3, 8];
/// An attribute with one row: CFA = sp + 16.
const OTHER: [u8; 8] = [1, 0, 0, 0, 0, 0, 3, 16];

#[test]
fn functions_that_tables_have_alike_are_one_and_others_are_omitted() {
    let first = table(&[(0x1000, 4, 0), (0x1010, 4, 0), (0x1020, 4, 8)], 3, &[LEAF, OTHER].concat());
    let second = table(&[(0x1010, 4, 0), (0x1020, 4, 0), (0x900, 4, 0)], 3, &LEAF);
    let mut merged = Tables::new(Arch::Amd64, Options::default()).unwrap();
    for bytes in [&first, &second] {
        let table = Section::parse(bytes, Address(0x2000)).unwrap();
        let pushed = merged.push(&table, |function| function.start().0 >= 0x1000, |_| panic!()).unwrap();
        assert_eq!(pushed.functions + pushed.dead, 3);
    }
    let section = merged.finish();
    let omitted: Vec<_> =
        section.omitted().iter().map(|omitted| (omitted.function, omitted.reason)).collect();
    assert_eq!(
        omitted,
        [(Key(0x1020), Reason::Ambiguous), (Key(0x1020), Reason::Ambiguous)][..omitted.len()]
    );
    assert!(!omitted.is_empty());
    let bytes = section.into_bytes(Address(0x2000), Key::address).unwrap();
    assert_eq!(bytes, table(&[(0x1000, 4, 0), (0x1010, 4, 0)], 2, &LEAF));
}

#[test]
fn functions_without_rows_are_named_and_answered_by_none() {
    let bytes = table(&[(0x1000, 0x100, 0), (0x1010, 4, 8)], 1, &[&LEAF[..], &[0; 5]].concat());
    let table = Section::parse(&bytes, Address(0x2000)).unwrap();
    let mut merged = Tables::new(Arch::Amd64, Options::default()).unwrap();
    let mut omitted = Vec::new();
    let pushed =
        merged.push(&table, |_| true, |reason| omitted.push((reason.function, reason.reason))).unwrap();
    assert_eq!((pushed.functions, pushed.omitted), (1, 1));
    assert_eq!(omitted, [(Key(0x1010), Reason::RowsMissing)]);
    let bytes = merged.finish().into_bytes(Address(0x2000), Key::address).unwrap();
    let merged = Section::parse(&bytes, Address(0x2000)).unwrap();
    let has_row = |pc| merged.lookup(Address(pc)).unwrap().is_some();
    assert_eq!([0x100f, 0x1010, 0x1013, 0x1014].map(has_row), [true, false, false, true]);
}

#[test]
fn a_table_that_cannot_be_merged_adds_nothing() {
    let mut merged = Tables::new(Arch::Aarch64, Options::default()).unwrap();
    let bytes = table(&[(0x1000, 4, 0)], 1, &LEAF);
    let amd64 = Section::parse(&bytes, Address(0x2000)).unwrap();
    assert_eq!(merged.push(&amd64, |_| true, |_| ()), Err(MergeError::Architecture(Arch::Amd64)));

    let mut merged = Tables::new(Arch::Amd64, Options::default()).unwrap();
    let bytes = table(&[(0x1000, 4, 0), (0x1010, 4, 99)], 1, &LEAF);
    let damaged = Section::parse(&bytes, Address(0x2000)).unwrap();
    let refused = merged.push(&damaged, |_| true, |_| ());
    assert!(matches!(refused, Err(MergeError::Malformed(Error::FreOffset { .. }))), "{refused:?}");

    // Version 2: 100 functions with 50 FREs of two bytes (outermost frames), each a byte after the previous.
    let count = 100_u32;
    let mut bytes = Vec::from([0xe2, 0xde, 2, 1, 3, 0, 0xf8, 0]);
    for field in [count, 50 * count, 200, 0, 20 * count] {
        bytes.extend(field.to_le_bytes());
    }
    for n in 0..count {
        for field in [0x1000 * n, 0x1000, n, 50, 0] {
            bytes.extend(field.to_le_bytes());
        }
    }
    bytes.resize(bytes.len() + 200, 0);
    let hostile = Section::parse(&bytes, Address(0x2000)).unwrap();
    hostile.validate().unwrap();
    let refused = merged.push(&hostile, |_| true, |_| ());
    assert_eq!(refused, Err(MergeError::OverlappingRows { rows: 5000 }));
    assert_eq!(merged.finish().num_fdes(), 0);
}
