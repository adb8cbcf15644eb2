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
        // Each function has one row.
        assert_eq!(pushed.rows, pushed.functions);
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

    // 50 FREs each, a byte after those of the function before.
    let bytes = outermost(|number| (number, 50));
    let hostile = Section::parse(&bytes, Address(0x2000)).unwrap();
    hostile.validate().unwrap();
    let refused = merged.push(&hostile, |_| true, |_| ());
    assert_eq!(refused, Err(MergeError::OverlappingRows { rows: 5000 }));
    assert_eq!(merged.finish().num_fdes(), 0);
}

/// Returns a table of version 2: 100 functions with FREs of two bytes (outermost frames), in 200 bytes. `fres` returns
/// the offset of the first FRE of a function, and their number.
fn outermost(fres: impl Fn(u32) -> (u32, u32)) -> Vec<u8> {
    let count = 100;
    let mut bytes = Vec::from([0xe2, 0xde, 2, 1, 3, 0, 0xf8, 0]);
    let all: u32 = (0..count).map(|number| fres(number).1).sum();
    for field in [count, all, 200, 0, 20 * count] {
        bytes.extend(field.to_le_bytes());
    }
    for number in 0..count {
        let (at, fres) = fres(number);
        for field in [0x1000 * number, 0x1000, at, fres, 0] {
            bytes.extend(field.to_le_bytes());
        }
    }
    bytes.resize(bytes.len() + 200, 0);
    bytes
}

/// Functions may share all of their rows, and there may be two rows for each byte.
#[test]
fn rows_that_functions_share_count_once() {
    let rows = |fres: fn(u32) -> (u32, u32)| {
        let bytes = outermost(fres);
        let section = Section::parse(&bytes, Address(0x2000)).unwrap();
        Tables::new(Arch::Amd64, Options::default()).unwrap().push(&section, |_| true, |_| ())
    };
    assert!(rows(|_| (0, 100)).is_ok());
    assert!(rows(|number| (number, 4)).is_ok());
    let refused = rows(|number| (number, 4 + u32::from(number == 7)));
    assert_eq!(refused, Err(MergeError::OverlappingRows { rows: 401 }));
}
