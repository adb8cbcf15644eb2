//! Rows that no tool at hand writes, by every way to a row.

use cfipack_decoder::sframe::{Error, Index, Section};
use cfipack_format::sframe::{Abi, Flags, Version};
use cfipack_format::{Address, Cfa, FunctionOffset, Register, Row, Rule};

use crate::table::{ADDRESS, Function, table};

/// The first row of a table, by a walk; a lookup and an index must agree.
fn first_row(version: Version, abi: Abi, fre: &[u8]) -> Result<Row, Error> {
    // Rows with bytes after them are read in a quicker way than the last ones.
    let after: Vec<Vec<u8>> = (0..8).map(|start| vec![start, 0x03, 8]).collect();
    let after: Vec<&[u8]> = after.iter().map(|fre| &fre[..]).collect();
    let functions = [Function::new(ADDRESS + 0x1000, 8, &[fre]), Function::new(ADDRESS + 0x1008, 8, &after)];
    let bytes = table(version, abi, Flags::FDE_SORTED, &functions);
    let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
    let row = section.function(0).unwrap().unwrap().rows().next().unwrap();
    let pc = Address(ADDRESS + 0x1001);
    assert_eq!(section.lookup(pc), row.map(Some));
    let mut memory = vec![u32::MAX; Index::len_for(&section)];
    if let Ok(index) = Index::build(&section, &mut memory) {
        assert_eq!(index.lookup(pc), row.map(Some));
    }
    row
}

/// binutils 2.45: on s390x an odd word of version 2 is a register's number times 2 plus 1. The
/// CFA's word is `(offset - 160) / 8`.
#[test]
fn registers_of_s390x_in_version_2() {
    let (f0, f2, three_words) = (16, 17, 3 << 1 | 1);
    let row = first_row(Version::V2, Abi::S390x, &[0, three_words, 2, f2 << 1 | 1, f0 << 1 | 1]).unwrap();
    let in_register = |number: u8| Rule::Register { register: Register(number.into()), offset: 0 };
    let expected = Row {
        start: FunctionOffset(0),
        cfa: Cfa::Register { register: Register(15), offset: 176 },
        return_address: in_register(f2),
        frame_pointer: in_register(f0),
        signed: false,
    };
    assert_eq!(row, expected);
    // An even one is an offset from the CFA.
    let row = first_row(Version::V2, Abi::S390x, &[0, three_words, 2, 0xd0, f0 << 1 | 1]).unwrap();
    assert_eq!(row, Row { return_address: Rule::Cfa(-48), ..expected });
}

/// Bit 7 of an info byte means that the return address is signed, which only AArch64 does.
#[test]
fn signed_rows() {
    let signed = 0x80 | 1 << 1 | 1;
    for version in [Version::V2, Version::V3] {
        assert!(first_row(version, Abi::Aarch64, &[0, signed, 16]).unwrap().signed);
        for abi in [Abi::Amd64, Abi::S390x] {
            let row = first_row(version, abi, &[0, signed, 16]);
            assert!(matches!(row, Err(Error::FreInfo { value: 0x83, .. })), "{version:?}, {abi:?}: {row:?}");
        }
    }
}
