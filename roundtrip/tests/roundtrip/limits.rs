//! Reports that describe only some of the differences count the others.

use cfipack_cfi::SectionKind;
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::{KernelTable, Options, Table, diff, kernel_verdict, verify};

use crate::made::{self, Cfi, Made, SP1, TABLE_ADDRESS};

#[test]
fn what_is_not_described_is_counted() {
    let (mut cfi, cie) = Cfi::amd64();
    let starts = [0x1000, 0x2000, 0x3000, 0x4000];
    for start in starts {
        cfi.fde(cie, start, 4, &[]);
    }
    let table = |cfa| {
        let functions = starts.map(|start| Made::new(start, 4, &[(0, SP1, &[cfa])]));
        made::table(cfi.section().arch, &functions)
    };
    let (wrong, right) = (table(16), table(8));
    let [wrong, right] = [&wrong, &right].map(|bytes| [Section::parse(bytes, TABLE_ADDRESS).unwrap()]);
    for (limit, described) in [(100, 4), (4, 4), (3, 3), (1, 1), (0, 0)] {
        let options = Options::new().with_limit(limit);
        let report = verify(&[cfi.section()], &Table::new(&wrong), &options);
        assert_eq!((report.differences.len(), report.more_differences), (described, 4 - described as u64));
        let diff = diff(&Table::new(&wrong), &Table::new(&right), &options);
        assert_eq!((diff.differences.len(), diff.more_differences), (described, 4 - described as u64));
    }
}

/// If functions share rows that break the kernel's rules, each row counts once for each function.
#[test]
fn violations_that_are_not_described_are_counted() {
    let rows = [(0, SP1, &[8u8][..]); 41];
    let functions = [0x1000, 0x2000, 0x3000].map(|start| Made::new(start, 8, &rows));
    let mut bytes = made::table(Arch::Amd64, &functions);
    // All functions have the FREs of the first function.
    [1, 2].into_iter().for_each(|index| bytes[28 + 16 * index + 12..][..4].fill(0));
    let section = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
    for (limit, described) in [(200, 120), (120, 120), (119, 119), (1, 1), (0, 0)] {
        let found = kernel_verdict(&section, &KernelTable::Linked(None), limit);
        assert_eq!((found.first.len(), found.more), (described, 120 - described as u64));
        assert!(!found.is_accepted());
    }
}

#[test]
fn faults_that_are_not_described_are_counted() {
    let functions = [0x1000, 0x2000, 0x3000].map(|start| Made::new(start, 4, &[(0, SP1, &[8])]));
    let mut bytes = made::table(Cfi::amd64().0.section().arch, &functions);
    // The last field of each FDE locates where the function's rows are.
    (0..3).for_each(|at| bytes[28 + 16 * at + 12..][..4].fill(0xff));
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    let table = Table::new(&sections);
    for (limit, described) in [(100, 3), (2, 2), (0, 0)] {
        let options = Options::new().with_limit(limit);
        let report = verify(&[], &table, &options);
        assert_eq!((report.faults.len(), report.malformed), (described, 3));
        let diff = diff(&table, &table, &options);
        assert_eq!((diff.faults.map(|faults| faults.len()), diff.malformed), ([described; 2], 6));
    }
}

/// A function with a long CIE is judged only if the CIE has few FDEs. Many FDEs would make its instructions costly.
#[test]
fn a_long_cie_under_many_fdes_is_not_judged() {
    for (count, judged) in [(1, true), (400, false)] {
        let mut cfi = Cfi::new(Arch::Amd64, SectionKind::EhFrame);
        // CFA = rsp+8, and 1000 times the same rule for the return address.
        let rules = [&[0x0c, 7, 8][..], &[0x90, 1].repeat(1000)].concat();
        let cie = cfi.cie(b"zR", &[1, 0], &rules);
        let starts: Vec<u64> = (0..count).map(|number| 0x1000 + 16 * number).collect();
        starts.iter().for_each(|&start| cfi.fde(cie, start, 4, &[]));
        let functions: Vec<_> = starts.iter().map(|&start| Made::new(start, 4, &[(0, SP1, &[16])])).collect();
        let bytes = made::table(Arch::Amd64, &functions);
        let table = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
        let report = verify(&[cfi.section()], &Table::new(&table), &Options::default());
        let expected = if judged { (count, 0) } else { (0, count) };
        assert_eq!((report.different, report.unjudged), expected);
        if !judged {
            // 8 times the section's size, divided by 400 FDEs.
            let longest = 8 * cfi.section().bytes.len() / 400;
            let why = format!("of which each FDE of the section may cost {longest}");
            assert!(report.reasons.keys().all(|reason| reason.ends_with(&why)), "{:?}", report.reasons);
        }
    }
}

/// Compares stubs with coprime periods. The result must be the same as with a lookup at each PC.
#[test]
fn stubs_of_coprime_periods() {
    let table = |period: u8, rows: &[(u8, u8, &[u8])]| {
        let mut stubs = Made::new(0x1000, 10_000, rows);
        (stubs.info, stubs.rep_size) = (0x10, period);
        made::table(Arch::Amd64, &[stubs])
    };
    let bytes = [
        table(15, &[(2, SP1, &[8]), (7, SP1, &[16]), (9, SP1, &[8])]),
        table(7, &[(0, SP1, &[8]), (3, SP1, &[16])]),
    ];
    let [a, b] = [&bytes[0], &bytes[1]].map(|bytes| [Section::parse(bytes, TABLE_ADDRESS).unwrap()]);
    let mut counts = [0; 3];
    for pc in 0x1000..0x1000 + 10_000 {
        let cfa = |section: &Section<'_>| section.lookup(Address(pc)).unwrap().map(|row| row.cfa);
        match (cfa(&a[0]), cfa(&b[0])) {
            (None, _) => counts[2] += 1,
            (a, b) => counts[usize::from(a != b)] += 1,
        }
    }
    let found = diff(&Table::new(&a), &Table::new(&b), &Options::default());
    assert_eq!([found.pcs_equal, found.pcs_different, found.pcs_only_b], counts);
    assert_eq!(found.pcs_only_a, 0);
}
