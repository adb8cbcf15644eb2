//! Tests functions that are too large for one FDE.

use cfipack_cfi::write::{Cie, InstructionWriter, Writer};
use cfipack_cfi::{Instruction, SectionKind};
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch};
use cfipack_tests::convert::{Converted, convert};

const FUNCTION: Address = Address(0x1000);
const TABLE: Address = Address(0x100_0000);

/// Makes an `.eh_frame` of one function, with a row at each of its first `rows` bytes.
fn eh_frame(rows: u32) -> Writer {
    let mut section = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0x80_0000));
    // def_cfa rsp+8; offset rip -8
    let cie = Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1]).with_augmentation(b"");
    let cie = section.cie(&cie).unwrap();
    let mut instructions = InstructionWriter::for_cie(&cie);
    for row in 1..rows {
        instructions.put(Instruction::Advance(1)).unwrap();
        let offset = if row % 2 == 0 { 16 } else { 24 };
        instructions.put(Instruction::DefCfaOffset(offset)).unwrap();
    }
    section.fde(&cie, FUNCTION, rows.into(), None, instructions.as_bytes()).unwrap();
    section
}

/// Converts the function and verifies the table.
fn converted(rows: u32, options: Options) -> Converted {
    let written = eh_frame(rows);
    let section = written.section();
    let converted = convert(&[section], Arch::Amd64, TABLE, options);
    converted.table().validate().unwrap();
    let report = converted.verify(&[section]);
    assert!(report.is_true(), "{rows} rows, {options:?}: {:?}", report.differences.first());
    assert_eq!(report.missing, converted.omitted.len() as u64);
    converted
}

/// Version 3 counts a function's rows in 16 bits. Layout `small` cuts this function in two. Layout `gnu` omits it, as
/// gas does.
#[test]
fn more_rows_than_a_function_can_count() {
    for (rows, small_functions, gnu_functions) in [(65_535, 1, 1), (65_536, 2, 0), (140_000, 3, 0)] {
        let small = converted(rows, Options::default());
        assert_eq!(small.table().num_functions(), small_functions, "{rows} rows");
        let gnu = converted(rows, Options::new().with_layout(Layout::Gnu));
        assert_eq!(gnu.table().num_functions(), gnu_functions, "{rows} rows");
        assert_eq!(gnu.omitted.len(), 1 - gnu_functions);
        let version_2 = converted(rows, Options::new().with_version(Version::V2));
        assert_eq!(version_2.omitted.len(), 0, "{rows} rows");
    }
}
