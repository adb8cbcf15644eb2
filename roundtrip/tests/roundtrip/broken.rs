//! Breaks a correct table in one way after the other. The verifier must find exactly the wrong PCs.

use crate::made::{self, Cfi, FP2, Made, SP1, SP2, TABLE_ADDRESS};
use cfipack_cfi::SectionKind;
use cfipack_decoder::sframe::Section;
use cfipack_format::sframe::Abi;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::{Fault, FaultKind, Options, Report, Table, diff, most_frequent_first, verify};

/// Two functions: push %rbp; mov %rsp,%rbp; ...; pop %rbp; ret at 0x1000..0x1020, a leaf at 0x1020..0x1024.
fn cfi() -> Cfi {
    let (mut cfi, cie) = Cfi::amd64();
    // advance 1; def_cfa_offset 16; offset rbp -16; advance 3; def_cfa_register rbp; advance 27; def_cfa rsp 8
    cfi.fde(cie, 0x1000, 0x20, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x5b, 0x0c, 7, 8, 0xc6]);
    cfi.fde(cie, 0x1020, 4, &[]);
    cfi
}

fn functions() -> [Made; 2] {
    [
        Made::new(
            0x1000,
            0x20,
            &[(0, SP1, &[8]), (1, SP2, &[16, 0xf0]), (4, FP2, &[16, 0xf0]), (31, SP1, &[8])],
        ),
        Made::new(0x1020, 4, &[(0, SP1, &[8])]),
    ]
}

fn report(cfi: &Cfi, functions: &[Made]) -> Report {
    let bytes = made::table(Arch::Amd64, functions);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    verify(&[cfi.section()], &Table::new(&sections), &Options::default())
}

/// Returns the PCs that are described as different.
fn different(report: &Report) -> Vec<u64> {
    let pcs: Vec<_> = report.differences.iter().flat_map(|d| d.start.0..d.end.0).collect();
    assert_eq!(pcs.len() as u64, report.pcs_different);
    assert_eq!(
        report.pcs,
        report.pcs_equal
            + report.pcs_different
            + report.pcs_missing
            + report.pcs_unjudged
            + report.pcs_padding
    );
    assert_eq!(report.functions, report.equal + report.different + report.missing + report.unjudged);
    pcs
}

#[test]
fn correct() {
    let report = report(&cfi(), &functions());
    assert!(report.is_complete(), "{report:#?}");
    assert_eq!((report.functions, report.equal, report.pcs, report.pcs_equal), (2, 2, 0x24, 0x24));
}

#[test]
fn wrong_offset() {
    let mut table = functions();
    table[0].rows[1].2[0] = 24;
    let report = report(&cfi(), &table);
    assert_eq!(different(&report), [0x1001, 0x1002, 0x1003]);
    assert_eq!((report.equal, report.different), (1, 1));
    let words = report.differences[0].to_string();
    assert_eq!(
        words,
        "0x1001..0x1004 in the function at 0x1000: CFI: CFA = rsp+16, return address at CFA-8, \
         rbp at CFA-16; table: CFA = rsp+24, return address at CFA-8, rbp at CFA-16"
    );
}

#[test]
fn wrong_base() {
    let mut table = functions();
    table[0].rows[2].1 = SP2;
    assert_eq!(different(&report(&cfi(), &table)), (0x1004..0x101f).collect::<Vec<_>>());
}

#[test]
fn wrong_frame_pointer() {
    let mut table = functions();
    table[0].rows[2].2[1] = 0xe8;
    assert_eq!(different(&report(&cfi(), &table)), (0x1004..0x101f).collect::<Vec<_>>());
}

#[test]
fn row_shifted_by_a_byte() {
    let mut table = functions();
    table[0].rows[2].0 = 5;
    assert_eq!(different(&report(&cfi(), &table)), [0x1004]);
    table[0].rows[2].0 = 3;
    assert_eq!(different(&report(&cfi(), &table)), [0x1003]);
}

#[test]
fn row_missing() {
    let mut table = functions();
    table[0].rows.remove(3);
    assert_eq!(different(&report(&cfi(), &table)), [0x101f]);
    table[0].rows.remove(0);
    let report = report(&cfi(), &table);
    assert_eq!(different(&report), [0x101f]);
    assert_eq!(report.pcs_missing, 1);
}

#[test]
fn function_missing() {
    let report = report(&cfi(), &functions()[1..]);
    assert!(different(&report).is_empty());
    assert!(report.is_true() && !report.is_complete());
    assert_eq!((report.equal, report.missing, report.pcs_missing), (1, 1, 0x20));
    assert_eq!(report.unverified[0].function, Some(Address(0x1000)));
    assert_eq!(report.unverified[0].words, "the function is not in the table");
    assert_eq!(most_frequent_first(&report.reasons), [("not-in-the-table", 1)]);
}

#[test]
fn function_extra() {
    let mut table = functions().to_vec();
    table.push(Made::new(0x1030, 8, &[(2, SP1, &[8])]));
    let report = report(&cfi(), &table);
    assert_eq!(different(&report), (0x1032..0x1038).collect::<Vec<_>>());
    assert_eq!((report.equal, report.extra, report.pcs_extra, report.pcs), (2, 1, 6, 0x24 + 6));
}

#[test]
fn size_extended() {
    let mut table = functions();
    table[1].size = 6;
    assert_eq!(different(&report(&cfi(), &table)), [0x1024, 0x1025]);
    // The function reaches into the next function, but the next function answers for its own PCs.
    let mut table = functions();
    table[0].size = 0x22;
    assert!(report(&cfi(), &table).is_complete());
}

#[test]
fn size_cut() {
    let mut table = functions();
    table[0].size = 0x1f;
    let report = report(&cfi(), &table[..]);
    assert_eq!(report.pcs_missing, 1);
    assert_eq!((report.missing, report.different), (1, 0));
}

#[test]
fn start_shifted() {
    let mut table = functions();
    (table[1].start, table[1].size) = (0x1021, 4);
    let report = report(&cfi(), &table);
    assert_eq!(different(&report), [0x1024]);
    assert_eq!(report.pcs_missing, 1);
}

#[test]
fn signal_frame() {
    let mut table = functions();
    table[1].info = 0x80;
    let found = report(&cfi(), &table);
    assert_eq!(different(&found), (0x1020..0x1024).collect::<Vec<_>>());
    assert!(found.differences[0].to_string().ends_with(", a signal frame"), "{}", found.differences[0]);
}

#[test]
fn outermost_frame() {
    let mut table = functions();
    table[1].rows[0] = (0, 0, vec![]);
    assert_eq!(different(&report(&cfi(), &table)), (0x1020..0x1024).collect::<Vec<_>>());
}

#[test]
fn unreadable_rows() {
    let mut table = functions();
    // Word size 3 exists in no version.
    table[0].rows[2].1 = 0x63;
    let report = report(&cfi(), &table);
    assert!(!report.is_true());
    assert_eq!(different(&report).last(), Some(&0x101f));
}

/// A row with unreadable words has a known start, so its PCs are known too.
#[test]
fn an_unreadable_row_among_others() {
    let mut table = functions();
    // Only a row of an outermost frame may have no words.
    table[0].rows[1] = (1, 1, vec![]);
    let found = report(&cfi(), &table);
    assert_eq!(different(&found), [0x1001, 0x1002, 0x1003]);
    // Before the first row, the table has no answer.
    table[0].rows[1] = (1, SP2, vec![16, 0xf0]);
    table[0].rows[0] = (1, 1, vec![]);
    let found = report(&cfi(), &table);
    assert_eq!((different(&found), found.pcs_missing), (vec![], 1));
}

#[test]
fn unsorted_index() {
    let mut bytes = made::table(Arch::Amd64, &functions());
    // Swaps the two index entries. Their starts are relative to their own fields.
    let (first, second) = (bytes[28..44].to_vec(), bytes[44..60].to_vec());
    let moved = |entry: &[u8], by: i64| {
        let start = i64::from_le_bytes(*entry.first_chunk().unwrap()) + by;
        [&start.to_le_bytes(), &entry[8..]].concat()
    };
    bytes[28..44].copy_from_slice(&moved(&second, 16));
    bytes[44..60].copy_from_slice(&moved(&first, -16));
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    let report = verify(&[cfi().section()], &Table::new(&sections), &Options::default());
    assert_eq!(report.malformed, 1);
    assert!(!report.is_true());
}

/// The table has merged two functions into one. It equals CFI with one FDE for both. With padding between two FDEs,
/// only the option for padding makes it equal.
#[test]
fn merged_functions() {
    let rows: &[(u8, u8, &[u8])] =
        &[(0, SP1, &[8]), (1, SP2, &[16, 0xf0]), (4, FP2, &[16, 0xf0]), (31, SP1, &[8])];
    let merged = [Made::new(0x1000, 0x24, rows)];
    assert!(report(&cfi(), &merged).is_complete());

    let (mut apart, cie) = Cfi::amd64();
    apart.fde(cie, 0x1000, 0x20, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x5b, 0x0c, 7, 8, 0xc6]);
    apart.fde(cie, 0x1028, 4, &[]);
    let merged = [Made::new(0x1000, 0x2c, rows)];
    let bytes = made::table(Arch::Amd64, &merged);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    let table = Table::new(&sections);
    let strict = verify(&[apart.section()], &table, &Options::default());
    assert_eq!(different(&strict), (0x1020..0x1028).collect::<Vec<_>>());
    let lenient = verify(&[apart.section()], &table, &Options::new().with_padding(15));
    assert!(lenient.is_complete());
    assert_eq!(lenient.pcs_padding, 8);
    assert_eq!(verify(&[apart.section()], &table, &Options::new().with_padding(7)).pcs_extra, 8);
    // A function that cannot be read may lie in the gap.
    let unknown = apart.cie(b"zQ", &[1, 0], &[]);
    apart.fde(unknown, 0x1020, 8, &[]);
    let unread = verify(&[apart.section()], &table, &Options::new().with_padding(15));
    assert_eq!(different(&unread), (0x1020..0x1028).collect::<Vec<_>>());
}

#[test]
fn diffs() {
    let compare = |a: &[Made], b: &[Made]| {
        let (a, b) = (made::table(Arch::Amd64, a), made::table(Arch::Amd64, b));
        let a = [Section::parse(&a, TABLE_ADDRESS).unwrap()];
        let b = [Section::parse(&b, TABLE_ADDRESS).unwrap()];
        diff(&Table::new(&a), &Table::new(&b), &Options::default())
    };
    let whole = functions();
    assert!(compare(&whole, &whole).is_equal());

    let split = [
        Made::new(0x1000, 4, &[(0, SP1, &[8]), (1, SP2, &[16, 0xf0])]),
        Made::new(0x1004, 0x1b, &[(0, FP2, &[16, 0xf0])]),
        Made::new(0x101f, 5, &[(0, SP1, &[8])]),
    ];
    let found = compare(&whole, &split);
    assert!(found.is_equal());
    assert_eq!((found.equal, found.pcs_equal), (2, 0x24));
    assert_eq!(compare(&split, &whole).equal, 3);

    let mut changed = whole.clone();
    changed[0].rows[1].2[0] = 24;
    let found = compare(&whole, &changed);
    assert_eq!((found.equal, found.different, found.pcs_different), (1, 1, 3));
    assert_eq!(
        found.differences[0].to_string(),
        "0x1001..0x1004 in the function at 0x1000: \
         A: CFA = rsp+16, return address at CFA-8, rbp at CFA-16; \
         B: CFA = rsp+24, return address at CFA-8, rbp at CFA-16"
    );

    // A table with a function without rows equals a table without this function.
    let without_rows = [whole[0].clone(), Made::new(0x1020, 4, &[])];
    for (a, b, equal) in [(&without_rows[..], &whole[..1], 2), (&whole[..1], &without_rows, 1)] {
        let found = compare(a, b);
        assert!(found.is_equal());
        assert_eq!((found.equal, found.only_a, found.only_b), (equal, 0, 0));
    }

    let found = compare(&whole, &without_rows);
    assert_eq!((found.equal, found.only_a, found.only_b, found.pcs_only_a), (1, 1, 0, 4));
    let found = compare(&whole, &whole[..1]);
    assert_eq!((found.equal, found.only_a, found.only_b, found.pcs_only_a), (1, 1, 0, 4));
    let found = compare(&whole[..1], &whole);
    assert_eq!((found.equal, found.only_a, found.only_b, found.pcs_only_b), (1, 0, 1, 4));
}

/// Both architectures have the same register numbers, but no reader could read a table in the other byte order.
#[test]
fn a_table_for_the_other_byte_order() {
    let mut cfi = Cfi::new(Arch::Aarch64, SectionKind::EhFrame);
    let cie = cfi.cie(b"zR", &[1, 0], &[0x0c, 31, 0]);
    cfi.fde(cie, 0x1000, 8, &[]);
    let function = Made::new(0x1000, 8, &[(0, SP1, &[0])]);
    let [little, big] =
        [Arch::Aarch64, Arch::Aarch64Be].map(|arch| made::table(arch, std::slice::from_ref(&function)));
    let [little, big] = [&little, &big].map(|bytes| [Section::parse(bytes, TABLE_ADDRESS).unwrap()]);
    let [little, big] = [&little, &big].map(|sections| Table::new(sections));
    let is_fault = |fault: &Fault| (fault.table, fault.kind) == (0, FaultKind::Abi(Abi::Aarch64Be));

    let found = verify(&[cfi.section()], &little, &Options::default());
    assert!(found.is_complete() && found.faults.is_empty());
    let found = verify(&[cfi.section()], &big, &Options::default());
    assert!(!found.is_true());
    assert_eq!((found.malformed, found.faults.len()), (1, 1));
    assert!(found.faults.iter().all(is_fault));

    assert!(diff(&big, &big, &Options::default()).is_equal());
    let found = diff(&little, &big, &Options::default());
    assert!(!found.is_equal());
    assert_eq!((found.malformed, found.faults.each_ref().map(Vec::len)), (1, [0, 1]));
    assert!(found.faults.iter().flatten().all(is_fault));
}
