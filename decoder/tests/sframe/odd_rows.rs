//! Rows that no available tool writes, read by an iterator, a lookup and an index.

use cfipack_decoder::sframe::{Error, Index, Section};
use cfipack_format::sframe::{Abi, Flags, Version};
use cfipack_format::{Address, Cfa, FunctionOffset, Register, Row, Rule};

use crate::table::{ADDRESS, Function, table};

/// Returns the first row of a table from its iterator. A lookup and an index must find the same row.
fn first_row(version: Version, abi: Abi, fre: &[u8]) -> Result<Row, Error> {
    // The reader has a faster path for rows with bytes after them than for the last rows.
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

/// binutils 2.45: on s390x in version 2, an odd word is a register number times 2 plus 1. The word of the CFA
/// is `(offset - 160) / 8`.
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
    // An even word is an offset from the CFA.
    let row = first_row(Version::V2, Abi::S390x, &[0, three_words, 2, 0xd0, f0 << 1 | 1]).unwrap();
    assert_eq!(row, Row { return_address: Rule::Cfa(-48), ..expected });
}

/// Bit 7 of an info byte means that the return address is signed. Only AArch64 may set it.
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
