//! PC-mask functions of version 1, in which the starts of FREs are masks.

use cfipack_decoder::sframe::{Error, Index, Section};
use cfipack_format::sframe::{Abi, Flags, Version};
use cfipack_format::{Address, Cfa, Row};

use crate::table::{ADDRESS, Function, table};

/// The `.sframe` of a program that calls four functions through a lazy `.plt`, made by `gcc
/// -Wa,--gsframe` with binutils 2.40; header, FDEs, FREs.
const TABLE: &str = "\
    e2de01010300f8000300000007000000150000000000000033000000 \
    38efffff10000000090000000200000000 \
    48efffff400000000f0000000200000010 \
    81f0ffff50000000000000000300000000 \
    0003080103104f03080003100603180003080b0310";

/// The address of this section in the program.
const TABLE_ADDRESS: Address = Address(0x20e8);

/// The output of `readelf --sframe` of binutils 2.40 for this section.
const READELF: &str = "\
Contents of the SFrame section .sframe:
  Header :

    Version: SFRAME_VERSION_1
    Flags: SFRAME_F_FDE_SORTED
    Num FDEs: 3
    Num FREs: 7

  Function Index :

    func idx [0]: pc = 0x1020, size = 16 bytes
    STARTPC         CFA       FP        RA           
    0000000000001020  sp+16     u         u            
    0000000000001026  sp+24     u         u            

    func idx [1]: pc = 0x1030, size = 64 bytes
    STARTPC[m]      CFA       FP        RA           
    0000000000000000  sp+8      u         u            
    000000000000000b  sp+16     u         u            

    func idx [2]: pc = 0x1169, size = 80 bytes
    STARTPC         CFA       FP        RA           
    0000000000001169  sp+8      u         u            
    000000000000116a  sp+16     u         u            
    00000000000011b8  sp+8      u         u            
";

fn bytes() -> Vec<u8> {
    let digits: Vec<_> =
        TABLE.bytes().filter(|byte| *byte != b' ').map(|byte| (byte as char).to_digit(16)).collect();
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.iter().map(|[high, low]| (high.unwrap() << 4 | low.unwrap()) as u8).collect()
}

fn cfa_offset(row: Option<Row>) -> Option<i64> {
    match row?.cfa {
        Cfa::Register { offset, .. } => Some(offset),
        cfa => panic!("{cfa:?}"),
    }
}

#[test]
fn a_plt_of_binutils_2_40() {
    let bytes = bytes();
    let section = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
    section.validate().unwrap();
    let mut text = String::new();
    section.dump(&mut text, ".sframe").unwrap();
    assert_eq!(text, READELF);
    let mut memory = vec![0; Index::len_for(&section)];
    let index = Index::build(&section, &mut memory).unwrap();
    // A stub has instructions at 0, 6 and 11: `jmp`, `push`, `jmp`. In .eh_frame, the CFA grows by 8 at 11.
    for stub in (0x1030..0x1070).step_by(16) {
        for (offset, cfa) in [(0, 8), (6, 8), (11, 16)] {
            let pc = Address(stub + offset);
            assert_eq!(cfa_offset(section.lookup(pc).unwrap()), Some(cfa), "{pc}");
            assert_eq!(index.lookup(pc), section.lookup(pc));
        }
    }
    assert_eq!(section.lookup(Address(0x1070)), Ok(None));
}

/// Checks the rule of binutils 2.40's header for many starts: `PC & START >= START`.
#[test]
fn the_last_row_whose_mask_an_offset_has() {
    let starts = [2u8, 3, 5, 5, 0x40, 0x41, 0x90, 0xff];
    let fres: Vec<_> = starts.iter().zip(1..).map(|(&start, number)| [start, 3, number]).collect();
    let fres: Vec<_> = fres.iter().map(|fre| &fre[..]).collect();
    let stubs = Function::new(ADDRESS + 0x1000, 0x300, &fres).with(0x10, 0, 0);
    let bytes = table(Version::V1, Abi::Amd64, Flags::FDE_SORTED, &[stubs]);
    let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
    section.validate().unwrap();
    assert_eq!(section.function(0).unwrap().unwrap().rep_size(), 256);
    for offset in 0..0x300 {
        let number = starts.iter().rposition(|&start| offset & u64::from(start) >= u64::from(start));
        let row = section.lookup(Address(ADDRESS + 0x1000 + offset)).unwrap();
        assert_eq!(cfa_offset(row), number.map(|number| number as i64 + 1), "{offset:#x}");
    }
}

/// A mask of two bytes is refused, because no tool writes it.
#[test]
fn a_mask_of_two_bytes() {
    let stubs = Function::new(ADDRESS + 0x1000, 0x300, &[&[0, 0, 3, 8], &[1, 1, 3, 16]]).with(0x11, 0, 0);
    let bytes = table(Version::V1, Abi::Amd64, Flags::FDE_SORTED, &[stubs]);
    let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
    assert!(matches!(section.validate(), Err(Error::StartBeyondEnd { value: 0x101, .. })));
}
