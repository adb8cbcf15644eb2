//! Reports that describe only some of the differences count the others.

use cfipack_decoder::sframe::Section;
use cfipack_roundtrip::{Options, Table, diff, verify};

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
        let options = Options { limit, ..Options::default() };
        let report = verify(&[cfi.section()], &Table::new(&wrong), &options);
        assert_eq!((report.differences.len(), report.more_differences), (described, 4 - described as u64));
        let diff = diff(&Table::new(&wrong), &Table::new(&right), &options);
        assert_eq!((diff.differences.len(), diff.more_differences), (described, 4 - described as u64));
    }
}
