//! The kernel's rules, and the counts.

use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, SectionOffset};
use cfipack_roundtrip::{KernelTable, KernelViolation, kernel_verdict, stats};

use crate::made::{self, Made, SP1, SP2, TABLE_ADDRESS, flex};

fn violations(bytes: &[u8]) -> Vec<KernelViolation> {
    violations_of(bytes, &KernelTable::Linked(Some(Address(0x1000)..Address(0x2000))))
}

fn violations_of(bytes: &[u8], form: &KernelTable) -> Vec<KernelViolation> {
    let section = Section::parse(bytes, TABLE_ADDRESS).unwrap();
    let found = kernel_verdict(&section, form, 100);
    assert_eq!(found.more, 0);
    found.first
}

/// The kernel sorts the table of a module, which gas writes in the order of the source, so only functions with the
/// same start remain out of order.
#[test]
fn a_module_need_not_be_sorted() {
    let functions = [0x1000, 0x1004, 0x1008].map(|start| Made::new(start, 4, &[(0, SP1, &[8])]));
    let mut bytes = made::table(Arch::Amd64, &functions);
    bytes[3] &= !1;
    // A start counts from its field.
    for (index, start) in [0x1008, 0x1000, 0x1004_i64].into_iter().enumerate() {
        let field = 28 + 16 * index;
        let distance = start - TABLE_ADDRESS.0 as i64 - field as i64;
        bytes[field..field + 8].copy_from_slice(&distance.to_le_bytes());
    }
    assert_eq!(violations_of(&bytes, &KernelTable::Module), []);
    let start = Address(0x1000);
    let offset = SectionOffset(44);
    assert_eq!(
        violations(&bytes),
        [KernelViolation::NotSorted, KernelViolation::StartNotAscending { offset, start }]
    );

    let twice = [0x1000, 0x1000].map(|start| Made::new(start, 4, &[(0, SP1, &[8])]));
    assert_eq!(
        violations_of(&made::table(Arch::Amd64, &twice), &KernelTable::Module),
        [KernelViolation::StartNotAscending { offset, start }]
    );
}

#[test]
fn kernel_rules() {
    let good =
        [Made::new(0x1000, 4, &[(0, SP1, &[8]), (1, SP1, &[16])]), Made::new(0x1004, 4, &[(0, SP1, &[8])])];
    let bytes = made::table(Arch::Amd64, &good);
    assert_eq!(violations(&bytes), []);

    let mut made = good.to_vec();
    made.push(good[0].clone());
    let start = Address(0x1000);
    let offset = SectionOffset(44);
    assert_eq!(
        violations(&made::table(Arch::Amd64, &made)),
        [KernelViolation::StartNotAscending { offset, start }]
    );

    let mut made = good.to_vec();
    made[1].size = 0xffd;
    let (offset, start) = (SectionOffset(44), Address(0x1004));
    assert_eq!(
        violations(&made::table(Arch::Amd64, &made)),
        [KernelViolation::OutsideText { offset, start }]
    );

    let mut made = good.to_vec();
    made[1].flex = true;
    made[1].rows[0] = (0, flex(2), vec![0x39, 8]);
    let bytes_of_flex = made::table(Arch::Amd64, &made);
    assert_eq!(violations(&bytes_of_flex), []);

    // A single control word of 0 means no return address. A word after it would be left over.
    for (words, is_read) in [(&[0x39, 8, 0, 0x33, 16][..], true), (&[0x39, 8, 0, 0], false), (&[0x39], false)]
    {
        made[1].rows[0] = (0, flex(words.len() as u8), words.to_vec());
        let found = violations(&made::table(Arch::Amd64, &made));
        assert!(if is_read {
            found.is_empty()
        } else {
            matches!(found[..], [KernelViolation::Malformed(_)])
        });
    }

    // On amd64, the words are the CFA and the frame pointer, or only the CFA if the frame pointer is fixed.
    let mut made = good.to_vec();
    made[1].rows[0] = (0, SP2, vec![16, 0xf0]);
    let mut fixed = made::table(Arch::Amd64, &made);
    assert_eq!(violations(&fixed), []);
    fixed[5] = 0xf0;
    let row = SectionOffset(28 + 32 + 5 + 6 + 5);
    assert_eq!(violations(&fixed), [KernelViolation::WordsLeft { offset: row }]);

    let mut made = good.to_vec();
    made[0].rows[1].0 = 0;
    // After header, two index entries, attribute and first row.
    let offset = SectionOffset(28 + 32 + 5 + 3);
    assert_eq!(
        violations(&made::table(Arch::Amd64, &made)),
        [KernelViolation::RowNotAscending { offset, start: 0 }]
    );

    let mut made = good.to_vec();
    made[0].rows[1].0 = 5;
    assert!(matches!(violations(&made::table(Arch::Amd64, &made))[..], [KernelViolation::Malformed(_)]));

    assert_eq!(
        violations(&made::table(Arch::Amd64, &[])),
        [KernelViolation::NoFunctions, KernelViolation::NoRows]
    );

    let mut unsorted = bytes.clone();
    unsorted[3] = 4;
    assert_eq!(violations(&unsorted), [KernelViolation::NotSorted]);
    let mut rows = bytes.clone();
    rows[12] = 9;
    assert_eq!(violations(&rows), [KernelViolation::RowCount { header: 9, sum: 3 }]);
}

#[test]
fn bytes_and_counts() {
    let mut stubs = Made::new(0x2000, 0x20, &[(0, SP1, &[8]), (11, SP2, &[16, 0xf0])]);
    (stubs.info, stubs.rep_size) = (0x10, 16);
    let mut signal = Made::new(0x3000, 9, &[(0, flex(2), &[0x3b, 120])]);
    (signal.info, signal.flex) = (0x80, true);
    let outermost = Made::new(0x4000, 3, &[(0, 0, &[]), (1, SP1, &[8]), (2, SP1, &[16])]);
    let made = [Made::new(0x1000, 4, &[]), stubs, signal, outermost];
    let mut bytes = made::table(Arch::Amd64, &made);
    let section = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
    let found = stats(&section);
    assert_eq!((found.functions, found.rows, found.rows_stored, found.code), (4, 6, 6, 4 + 0x20 + 9 + 3));
    assert_eq!((found.flex, found.pc_mask, found.signal_frames, found.without_rows), (1, 1, 1, 1));
    assert_eq!(
        (found.outermost, found.rows_by_word_width, found.functions_by_start_width),
        (1, [5, 0, 0], [4, 0, 0])
    );
    assert_eq!((found.rows_per_function, found.most_rows), (vec![2, 1, 1], 3));
    let b = found.bytes;
    assert_eq!((b.total, b.header, b.index, b.attributes), (bytes.len() as u64, 28, 64, 20));
    assert_eq!((b.starts, b.infos, b.data_words, b.other), (6, 6, 7, 0));
    assert_eq!(b.total, b.header + b.index + b.attributes + b.starts + b.infos + b.data_words + b.other);

    // The last function shares the block of the function before it. Its own block becomes dead bytes.
    let third = bytes[28 + 32 + 12..28 + 48].to_vec();
    bytes[28 + 48 + 12..28 + 64].copy_from_slice(&third);
    let found = stats(&Section::parse(&bytes, TABLE_ADDRESS).unwrap());
    assert_eq!((found.sharing, found.shared_blocks, found.bytes.saved_by_sharing), (2, 1, 5 + 4));
    assert_eq!((found.rows, found.rows_stored, found.bytes.other), (4, 3, 5 + 2 + 3 + 3));
}
