//! Ranges that end, meet and repeat, and equal rules in two forms.

use cfipack_cfi::SectionKind;
use cfipack_decoder::sframe::Section;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, Arch, Cfa, Register};
use cfipack_roundtrip::unwind_info::{Code, Entry};
use cfipack_roundtrip::{
    KernelTable, KernelViolation, Options, Report, Table, TableAnswer, diff, kernel_verdict, unwind_info,
    verify,
};

use crate::made::{self, Cfi, Made, SP1, TABLE_ADDRESS, flex};

fn report(cfi: &Cfi, padding: u64, functions: &[Made]) -> Report {
    let bytes = made::table(Arch::Amd64, functions);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    verify(&[cfi.section()], &Table::new(&sections), &Options::new().with_padding(padding))
}

/// Makes functions with the row of their CIE: CFA = rsp + 8.
fn plain(functions: &[(u64, u64)]) -> Cfi {
    let (mut cfi, cie) = Cfi::amd64();
    functions.iter().for_each(|&(start, size)| cfi.fde(cie, start, size, &[]));
    cfi
}

fn made(start: u64, size: u32) -> Made {
    Made::new(start, size, &[(0, SP1, &[8])])
}

/// Returns the ranges that are described as different, and the numbers of PCs: equal, different, extra.
fn ranges(report: &Report) -> (Vec<(u64, u64)>, [u64; 3]) {
    let ranges = report.differences.iter().map(|found| (found.start.0, found.end.0)).collect();
    (ranges, [report.pcs_equal, report.pcs_different, report.pcs_extra])
}

/// `DW_CFA_val_offset`: rbp is CFA - 16, and the CFA is rsp + 8, so rbp is rsp - 8.
#[test]
fn a_value_at_an_offset_from_the_cfa() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 4, &[0x14, 6, 2]);
    // The control word of rsp: 7 << 3 | 1.
    let table = |offset: i8| {
        let row = [0x39, 8, 0, 0x39, offset as u8];
        Made { flex: true, ..Made::new(0x1000, 4, &[(0, flex(5), &row)]) }
    };
    assert!(report(&cfi, 0, &[table(-8)]).is_complete());
    for wrong in [-24, -16, 8, 0] {
        assert_eq!(report(&cfi, 0, &[table(wrong)]).pcs_different, 4, "{wrong}");
    }
}

/// ld's lazy PLT, and a table with a single row for it. In the last 5 bytes of a stub the CFA is rsp + 16.
#[test]
fn stubs_in_a_table_that_does_not_repeat() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 0x30, &[0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]);
    let found = report(&cfi, 0, &[made(0x1000, 0x30)]);
    assert_eq!(ranges(&found).1, [3 * 11, 3 * 5, 0]);
}

#[test]
fn a_gap_as_long_as_padding_may_be() {
    let cfi = plain(&[(0x1000, 8), (0x1010, 8)]);
    let found = report(&cfi, 8, &[made(0x1000, 0x18)]);
    assert!(found.is_complete() && found.pcs_padding == 8, "{found:?}");
    assert_eq!(ranges(&report(&cfi, 7, &[made(0x1000, 0x18)])), (vec![(0x1008, 0x1010)], [16, 8, 8]));
}

/// PCs at the start or at the end of a function of the table are not padding between two functions.
#[test]
fn a_gap_that_no_function_goes_around() {
    let cfi = plain(&[(0x1000, 8), (0x1010, 8)]);
    let ends_there = [made(0x1000, 0x10), made(0x1010, 8)];
    let starts_there = [made(0x1000, 8), made(0x1008, 0x10)];
    let is_there = [made(0x1000, 8), made(0x1008, 8), made(0x1010, 8)];
    for functions in [&ends_there[..], &starts_there, &is_there] {
        let found = report(&cfi, 8, functions);
        assert_eq!(ranges(&found), (vec![(0x1008, 0x1010)], [16, 8, 8]));
        assert_eq!((found.extra, found.pcs_padding), (1, 0));
    }
}

/// An FDE is not judged if its start is in a cell that only a running program fills in (`DW_EH_PE_indirect`).
#[test]
fn a_start_that_no_file_has() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 8, &[]);
    let cie = cfi.cie(b"zR", &[1, 0x80], &[0x0c, 7, 8, 0x90, 1]);
    cfi.fde(cie, 0x1010, 8, &[]);
    let found = report(&cfi, 0, &[made(0x1000, 8)]);
    assert_eq!((found.functions, found.equal, found.unjudged), (2, 1, 1), "{found:?}");
    assert_eq!((found.pcs_equal, found.pcs_different), (8, 0));
}

/// A function of the table reaches beyond the function of the CFI on both sides. It counts as one extra function with
/// two differences.
#[test]
fn extra_on_both_sides() {
    let found = report(&plain(&[(0x1010, 0x10)]), 0, &[made(0x1000, 0x30)]);
    assert_eq!(ranges(&found), (vec![(0x1000, 0x1010), (0x1020, 0x1030)], [16, 32, 32]));
    assert_eq!((found.extra, found.functions, found.equal), (1, 1, 1));
}

/// Three and a half stubs of 16 bytes. The first 4 bytes of each stub have no row.
#[test]
fn stubs_without_cfi() {
    let mut stubs = Made::new(0x2000, 0x38, &[(4, SP1, &[8])]);
    (stubs.info, stubs.rep_size) = (0x10, 16);
    let found = report(&plain(&[(0x1000, 8)]), 0, &[made(0x1000, 8), stubs]);
    assert_eq!((found.pcs_extra, found.extra, found.pcs), (3 * 12 + 4, 1, 8 + 3 * 12 + 4));
}

/// A version 1 table of stubs has the right answer wherever an instruction of a stub starts: at bytes 0, 6 and 11. The
/// bytes 12, 13 and 14 get another answer than byte 11, because they lack some of its bits.
#[test]
fn stubs_of_version_1() {
    let header = [0xe2, 0xde, 1, 1, 3, 0, 0xf8, 0];
    let fde = [0x2000u32.wrapping_sub(TABLE_ADDRESS.0 as u32), 0x40, 0, 2];
    let words = [1, 2, 6, 0, 17].into_iter().chain(fde).flat_map(u32::to_le_bytes);
    let bytes: Vec<u8> = header.into_iter().chain(words).chain([0x10, 0, SP1, 8, 11, SP1, 16]).collect();
    let section = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
    section.validate().unwrap();
    let tables = [section];
    let table = Table::new(&tables);
    let mut cursor = table.cursor();
    let segment = cursor.seek(0x2000);
    for offset in 0..0x40 {
        let cfa = if matches!(offset % 16, 11 | 15) { 16 } else { 8 };
        let TableAnswer::Row(row, _) = segment.at(0x2000 + offset) else { panic!("{offset}") };
        assert_eq!(row.cfa, Cfa::Register { register: Register(7), offset: cfa }, "{offset}");
        assert_eq!(section.lookup(Address(0x2000 + offset)), Ok(Some(*row)));
    }
}

/// Three and a half stubs that differ in their last 4 bytes. The half stub lacks these bytes.
#[test]
fn a_difference_that_recurs() {
    let stubs = |cfa: u8| {
        let mut stubs = Made::new(0x1000, 0x38, &[(0, SP1, &[8]), (12, SP1, &[cfa])]);
        (stubs.info, stubs.rep_size) = (0x10, 16);
        made::table(Arch::Amd64, &[stubs])
    };
    let [wrong, right] = [stubs(16), stubs(8)];
    let [wrong, right] = [&wrong, &right].map(|bytes| [Section::parse(bytes, TABLE_ADDRESS).unwrap()]);
    let report = verify(&[plain(&[(0x1000, 0x38)]).section()], &Table::new(&wrong), &Options::default());
    assert_eq!(ranges(&report), (vec![(0x100c, 0x1010)], [0x38 - 12, 12, 0]));
    let recurs = "; so every 16 bytes, 3 times in all";
    assert!(report.differences[0].to_string().ends_with(recurs), "{}", report.differences[0]);
    let found = diff(&Table::new(&wrong), &Table::new(&right), &Options::default());
    assert_eq!((found.differences.len(), found.pcs_different), (1, 12));
    assert!(found.differences[0].to_string().ends_with(recurs), "{}", found.differences[0]);
}

#[test]
fn functions_at_the_edges_of_the_text() {
    let bytes = made::table(Arch::Amd64, &[made(0x1000, 8), made(0x1008, 8)]);
    let outside = |text| {
        let section = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
        let found = kernel_verdict(&section, &KernelTable::Linked(Some(text)), 100).first;
        let start = |violation| match violation {
            KernelViolation::OutsideText { start, .. } => start.0,
            other => panic!("{other}"),
        };
        found.into_iter().map(start).collect::<Vec<_>>()
    };
    assert_eq!(outside(Address(0x1000)..Address(0x1010)), [] as [u64; 0]);
    assert_eq!(outside(Address(0x1000)..Address(0x100f)), [0x1008]);
    assert_eq!(outside(Address(0x1001)..Address(0x1010)), [0x1000]);
}

/// Makes a version 2 table for AArch64. Its function has this info byte, and signs its return address at once.
fn version_2(info: u8) -> Vec<u8> {
    let mut bytes = vec![0xe2, 0xde, 2, 1, 2, 0, 0, 0];
    // Functions, rows, bytes of rows, where functions and rows start.
    let start = 0x1000_u32.wrapping_sub(TABLE_ADDRESS.0 as u32);
    let words = [1, 1, 3, 0, 20, start, 8, 0, 1];
    bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.extend([info, 0, 0, 0]);
    bytes.extend([0, 0x80 | SP1, 16]);
    bytes
}

/// Bit 5 is the key in every version. Bit 7 marks a signal frame in version 3, and has no meaning in older versions.
#[test]
fn flags_by_version() {
    let are_equal = |a: Vec<u8>, b: Vec<u8>| {
        let [a, b] = [&a, &b].map(|bytes| [Section::parse(bytes, TABLE_ADDRESS).unwrap()]);
        let found = diff(&Table::new(&a), &Table::new(&b), &Options::default());
        assert_eq!((found.malformed, found.pcs_equal + found.pcs_different), (0, 8));
        found.is_equal()
    };
    let both = |a, b| are_equal(version_2(a), version_2(b));
    assert!(both(0, 0) && both(0x20, 0x20) && !both(0, 0x20));
    assert!(both(0, 0x80) && both(0xa0, 0x20));
    let bytes = version_2(0x80);
    let section = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
    assert!(!section.function(0).unwrap().unwrap().is_signal_frame());
    // readelf 2.47 shows the bit all the same.
    let mut text = String::new();
    section.dump(&mut text, ".sframe").unwrap();
    assert!(text.contains("size = 8 bytes, attr = \"S\"\n"), "{text}");
    let version_3 = |info| made::table(Arch::Aarch64, &[Made { info, ..made(0x1000, 8) }]);
    assert!(are_equal(version_3(0x80), version_3(0x80)) && !are_equal(version_3(0x80), version_3(0)));
}

/// A file may have tables of several versions. Each table represents only the flags that its version has.
#[test]
fn flags_by_version_of_each_table() {
    let version_2 = version_2(0);
    let in_v3 = |start, info| made::table(Arch::Aarch64, &[Made { info, ..made(start, 8) }]);
    let (signal, plain, elsewhere) = (in_v3(0x1000, 0x80), in_v3(0x1000, 0), in_v3(0x2000, 0));
    let different = |cfi: &Cfi, tables: &[&Vec<u8>]| {
        let sections: Vec<_> =
            tables.iter().map(|bytes| Section::parse(bytes, TABLE_ADDRESS).unwrap()).collect();
        let report = verify(&[cfi.section()], &Table::new(&sections), &Options::default());
        report.differences.iter().filter(|found| found.start.0 == 0x1000).count()
    };
    // As in the tables: CFA = sp + 8, and x30 unchanged. x30 is signed only in the table of version 2.
    let cfi = |augmentation, instructions: &[u8]| {
        let mut cfi = Cfi::new(Arch::Aarch64, SectionKind::EhFrame);
        let cie = cfi.cie(augmentation, &[1, 0], &[0x0c, 31, 8]);
        cfi.fde(cie, 0x1000, 8, instructions);
        cfi
    };
    let unsigned = cfi(b"zR", &[]);
    assert_eq!(different(&unsigned, &[&elsewhere, &plain]), 0);
    assert_eq!(different(&unsigned, &[&elsewhere, &signal]), 1);
    let empty_v2 = [&version_2[..8], &[0; 20]].concat();
    assert_eq!(different(&unsigned, &[&empty_v2, &signal]), 1);
    // CFA = sp + 16, DW_CFA_AARCH64_negate_ra_state.
    let signal_frame = cfi(b"zRS", &[0x0e, 16, 0x2d]);
    assert_eq!(different(&signal_frame, &[&elsewhere, &version_2]), 0);
}

/// An entry that goes on after a function counts only if it starts outside of all functions, and never twice.
#[test]
fn an_entry_that_goes_on_behind_its_function() {
    let without_cfi = |start, end| {
        let (start, end) = (Address(start), Address(end));
        let encoding = Encoding::frameless(1, 0, 0);
        let entry = Entry { start, end, encoding, personality: 0, lsda: None };
        let table = unwind_info::Table::of_object(Arch::Amd64, vec![entry], Code::new([]));
        let report = unwind_info::verify(&[plain(&[(0x1010, 0x10)]).section()], &table, &Options::default());
        (report.without_cfi, report.pcs_without_cfi, report.equal)
    };
    assert_eq!(without_cfi(0x1010, 0x1020), (0, 0, 1));
    assert_eq!(without_cfi(0x1010, 0x1028), (0, 8, 1));
    assert_eq!(without_cfi(0x1008, 0x1028), (1, 16, 1));
}
