//! Lookups in tables of many sizes, in place and through an index.

use cfipack_decoder::sframe::{Error, Index, Section};
use cfipack_format::sframe::{Abi, Flags, Version};
use cfipack_format::{Address, Cfa, Row};

use crate::table::{ADDRESS, Function, table};

/// Returns a function with a row every 10 bytes. The CFA offset identifies the function and the row.
fn numbered(start: u64, size: u32, number: i8) -> Function {
    let fre = |row: u8| vec![row * 10, 0x03, (number * 10) as u8 + row];
    Function {
        fres: (0..3).filter(|&row| u32::from(row) * 10 <= size).map(fre).collect(),
        ..Function::new(start, size, &[])
    }
}

fn cfa_offset(row: Option<Row>) -> Option<i64> {
    row.map(|row| match row.cfa {
        Cfa::Register { offset, .. } => offset,
        cfa => panic!("{cfa:?}"),
    })
}

/// Tries all functions, and returns the CFA offset for a PC. Of two functions with the PC, the later counts.
fn expected(functions: &[Function], pc: u64) -> Option<i64> {
    let function = functions.iter().rev().find(|f| pc >= f.start && pc - f.start < u64::from(f.size))?;
    let row = (pc - function.start).min(29) / 10;
    Some(function.fres[row as usize][2] as i64)
}

fn pcs(functions: &[Function]) -> Vec<u64> {
    let around = |f: &Function| f.start - 2..f.start + u64::from(f.size) + 2;
    [0, 1, ADDRESS, u64::MAX].into_iter().chain(functions.iter().flat_map(around)).collect()
}

#[test]
fn any_number_of_functions() {
    // Sizes repeat without a regular pattern, and a gap of one byte follows every function.
    let mut start = ADDRESS + 0x100_0000;
    let functions: Vec<Function> = (0..1000u64)
        .map(|i| {
            let size = (i * i * 7 % 97 + 1) as u32;
            start += u64::from(size) + 1;
            numbered(start - u64::from(size), size, (i % 12) as i8)
        })
        .collect();
    for flags in [Flags::FDE_SORTED, Flags::FDE_SORTED | Flags::START_PCREL] {
        for count in (1..150).chain([1000]) {
            let functions = &functions[..count];
            let bytes = table(Version::V3, Abi::Amd64, flags, functions);
            let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
            let mut memory = vec![0; Index::len_for(&section)];
            assert!(memory.len() <= 4 * functions.len() + 14);
            let index = Index::build(&section, &mut memory).unwrap();
            for pc in pcs(functions) {
                let expected = expected(functions, pc);
                let context = format!("{count} functions, {flags:?}, {pc:#x}");
                assert_eq!(cfa_offset(section.lookup(Address(pc)).unwrap()), expected, "{context}");
                assert_eq!(cfa_offset(index.lookup(Address(pc)).unwrap()), expected, "{context}");
            }
        }
    }
}

/// The start field wraps: the last function lies 2^63 bytes from the section, so its distance is negative and
/// it comes first in the index.
#[test]
fn a_function_at_the_other_end_of_memory() {
    let far = ADDRESS + (1 << 63);
    let around = (0..40).map(|i| numbered(ADDRESS - 0x1000 + 0x80 * i, 40, 2 + i as i8 % 8));
    let functions: Vec<_> = [numbered(far, 40, 1)].into_iter().chain(around).collect();
    for count in [3, 15, 16, 17, 41] {
        let functions = &functions[..count];
        for flags in [Flags::FDE_SORTED, Flags::FDE_SORTED | Flags::START_PCREL] {
            let bytes = table(Version::V3, Abi::Amd64, flags, functions);
            let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
            section.validate().unwrap();
            let mut memory = vec![0; Index::len_for(&section)];
            let index = Index::build(&section, &mut memory).unwrap();
            for pc in pcs(functions) {
                let (expected, context) = (expected(functions, pc), format!("{count}, {flags:?}, {pc:#x}"));
                assert_eq!(cfa_offset(section.lookup(Address(pc)).unwrap()), expected, "{context}");
                assert_eq!(cfa_offset(index.lookup(Address(pc)).unwrap()), expected, "index {context}");
            }
        }
    }
}

#[test]
fn rows_out_of_order_answer_for_nothing_behind_them() {
    let function =
        Function::new(ADDRESS + 0x1000, 0x40, &[&[0, 0x03, 8], &[0x20, 0x03, 16], &[0x10, 0x03, 24]]);
    let bytes = table(Version::V3, Abi::Amd64, Flags::FDE_SORTED, &[function]);
    let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
    let mut memory = vec![0; Index::len_for(&section)];
    let index = Index::build(&section, &mut memory).unwrap();
    for offset in 0..0x40 {
        let pc = Address(ADDRESS + 0x1000 + offset);
        match offset {
            0..0x20 => assert_eq!(cfa_offset(section.lookup(pc).unwrap()), Some(8), "{offset}"),
            _ => assert!(section.lookup(pc).is_err(), "{offset}"),
        }
        assert_eq!(index.lookup(pc), section.lookup(pc), "{offset}");
    }
}

#[test]
fn a_pc_mask_function_repeats() {
    // The rows that ld writes for a lazy amd64 .plt: sp+8, and sp+16 from byte 11 of each 16 bytes.
    let stubs = Function::new(ADDRESS + 0x1010, 0x40, &[&[0, 0x03, 8], &[11, 0x03, 16]]);
    for version in [Version::V2, Version::V3] {
        let flags = Flags::FDE_SORTED | Flags::START_PCREL;
        let bytes = table(version, Abi::Amd64, flags, &[stubs.clone().with(0x10, 0, 16)]);
        let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
        for offset in 0..0x40 {
            let row = section.lookup(Address(ADDRESS + 0x1010 + offset)).unwrap();
            assert_eq!(cfa_offset(row), Some(if offset % 16 < 11 { 8 } else { 16 }), "{offset}");
        }
        assert_eq!(section.lookup(Address(ADDRESS + 0x1050)), Ok(None));

        for stubs in [stubs.clone(), Function::new(ADDRESS + 0x1010, 0x40, &[])] {
            let bytes = table(version, Abi::Amd64, flags, &[stubs.with(0x10, 0, 0)]);
            let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
            assert!(matches!(section.lookup(Address(ADDRESS + 0x1010)), Err(Error::RepSize { .. })));
            assert!(matches!(section.validate(), Err(Error::RepSize { .. })));
        }
    }
}

#[test]
fn an_index_says_when_it_cannot_be_built() {
    let functions = [0x1000, 0x5000, 0x3000, 0x9000].map(|at| numbered(ADDRESS + at, 40, 1));
    let flags = Flags::FDE_SORTED | Flags::START_PCREL;
    let bytes = table(Version::V3, Abi::Amd64, flags, &functions);
    let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
    let mut memory = vec![0; Index::len_for(&section)];
    assert!(matches!(Index::build(&section, &mut memory), Err(Error::NotSorted { .. })));
    assert!(matches!(section.validate(), Err(Error::NotSorted { .. })));
    let short = memory.len() - 1;
    assert_eq!(Index::build(&section, &mut memory[..short]).err(), Some(Error::IndexMemory { len: short }));
}

#[test]
fn an_empty_table_has_no_rows() {
    let bytes = table(Version::V3, Abi::S390x, Flags::FDE_SORTED, &[]);
    let section = Section::parse(&bytes, Address(0)).unwrap();
    assert_eq!(section.lookup(Address(0)), Ok(None));
    let mut memory = vec![0; Index::len_for(&section)];
    assert_eq!(Index::build(&section, &mut memory).unwrap().lookup(Address(7)), Ok(None));
}
