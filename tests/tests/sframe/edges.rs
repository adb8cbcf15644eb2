//! Tests the limits of layout `small` with handmade CFI.

use cfipack_cfi::SectionKind;
use cfipack_cfi::write::{Cie, Writer, WrittenCie};
use cfipack_encoder::sframe::{Builder, Layout, Options, WriteError, Written};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Key};
use cfipack_format::{Reason, Unsupported};
use cfipack_tests::convert::{Converted, convert};

const TABLE: Address = Address(0x100_0000);

/// An `.eh_frame` under construction. CIEs use PC-relative pointers of four bytes, and records have no padding.
struct EhFrame(Writer);

impl EhFrame {
    fn new() -> Self {
        let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
        writer.alignment = 1;
        Self(writer)
    }

    /// Writes a CIE: code alignment 1, data alignment -8, return address at CFA-8.
    fn cie(&mut self, augmentation: &[u8], instructions: &[u8]) -> WrittenCie {
        let instructions = [instructions, &[0x90, 1]].concat();
        self.0.cie(&Cie::new(Arch::Amd64, &instructions).with_augmentation(augmentation)).unwrap()
    }

    fn function(&mut self, cie: WrittenCie, start: u32, size: u32, instructions: &[u8]) {
        self.0.fde(&cie, Address(start.into()), size.into(), None, instructions).unwrap();
    }

    fn convert(&self, options: Options) -> Converted {
        let section = self.0.section();
        let converted = convert(&[section], Arch::Amd64, TABLE, options);
        converted.table().validate().unwrap();
        let report = cfipack_roundtrip::verify(
            &[section],
            &cfipack_roundtrip::Table::new(&[converted.table()]),
            &cfipack_roundtrip::Options::new().with_padding(15),
        );
        assert!(report.is_true(), "{:?}", report.differences.first());
        converted
    }
}

/// CFA = rsp + 8.
const AT_ENTRY: &[u8] = &[0x0c, 7, 8];

/// Returns start, bytes and number of rows of each function in the table.
fn functions(converted: &Converted) -> Vec<(u64, u32, usize)> {
    let table = converted.table();
    let functions = table.functions().map(|function| function.unwrap());
    functions.map(|function| (function.start().0, function.size(), function.rows().count())).collect()
}

fn merging(merge_functions: u32) -> Options {
    Options::new().with_merge_functions(merge_functions)
}

#[test]
fn merged_functions_have_at_most_the_requested_rows() {
    let mut cfi = EhFrame::new();
    let cie = cfi.cie(b"zR", AT_ENTRY);
    // push, push. The next function starts with the last row of this one, and has two more.
    cfi.function(cie, 0x1000, 16, &[0x41, 0x0e, 16, 0x41, 0x0e, 24]);
    cfi.function(cie, 0x1010, 16, &[0x0e, 24, 0x41, 0x0e, 16, 0x41, 0x0e, 8]);
    let apart = [(0x1000, 16, 3), (0x1010, 16, 3)];
    assert_eq!(functions(&cfi.convert(merging(5))), [(0x1000, 32, 5)]);
    assert_eq!(functions(&cfi.convert(merging(4))), apart);
    assert_eq!(functions(&cfi.convert(merging(0))), apart);
    // The next function starts with another row.
    let mut cfi = EhFrame::new();
    let cie = cfi.cie(b"zR", AT_ENTRY);
    cfi.function(cie, 0x1000, 16, &[0x41, 0x0e, 16]);
    cfi.function(cie, 0x1010, 16, &[0x41, 0x0e, 16]);
    assert_eq!(functions(&cfi.convert(merging(4))), [(0x1000, 32, 4)]);
    assert_eq!(functions(&cfi.convert(merging(3))), [(0x1000, 16, 2), (0x1010, 16, 2)]);
}

/// Up to 15 bytes between functions count as padding. Merged functions are right only at the distances that they have
/// in the CFI.
#[test]
fn merged_functions_that_are_moved() {
    let mut frames = EhFrame::new();
    let cie = frames.cie(b"zR", AT_ENTRY);
    for start in [0x1000, 0x1010, 0x1020] {
        frames.function(cie, start, 0x10, &[]);
    }
    let section = frames.0.section();
    let mut builder = Builder::new(Arch::Amd64, merging(16)).unwrap();
    builder.push_all(cfipack_cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
    let built = builder.finish();
    assert_eq!(built.num_fdes(), 1);
    let write = |address_of: fn(Key) -> Address| {
        let mut table = vec![0; built.len()];
        let written = built.write(&mut table, TABLE, address_of);
        assert_eq!(built.clone().into_bytes(TABLE, address_of), written.clone().map(|_| table));
        written
    };
    assert_eq!(write(|start| Address(start.0 + 0x40_0000)), Ok(Written::default()));
    let apart = WriteError::MergedApart { function: Key(0x1020) };
    assert_eq!(write(|start| if start.0 == 0x1020 { Address(0x9000) } else { start.address() }), Err(apart));
}

#[test]
fn gaps_that_are_merged_across() {
    for (gap, expected) in
        [(15, &[(0x1000, 47, 1)][..]), (16, &[(0x1000, 16, 1), (0x1020, 16, 1)]), (0, &[(0x1000, 32, 1)])]
    {
        let mut cfi = EhFrame::new();
        let cie = cfi.cie(b"zR", AT_ENTRY);
        cfi.function(cie, 0x1000, 16, &[]);
        cfi.function(cie, 0x1010 + gap, 16, &[]);
        assert_eq!(functions(&cfi.convert(merging(16))), expected, "{gap}");
    }
}

/// Readers look up a signal frame's PC as it is, and for other frames the byte before the PC.
#[test]
fn signal_frames_are_not_merged() {
    let mut cfi = EhFrame::new();
    let cie = cfi.cie(b"zRS", AT_ENTRY);
    cfi.function(cie, 0x1000, 16, &[]);
    cfi.function(cie, 0x1010, 16, &[]);
    assert_eq!(functions(&cfi.convert(merging(16))), [(0x1000, 16, 1), (0x1010, 16, 1)]);
}

/// `.cfi_escape` as ld writes it for a lazy PLT: the CFA is rsp + 8, and in the last bytes of a stub rsp + 16.
const STUBS: &[u8] = &[0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];

#[test]
fn stubs_are_not_merged() {
    let mut cfi = EhFrame::new();
    let cie = cfi.cie(b"zR", AT_ENTRY);
    cfi.function(cie, 0x1000, 32, STUBS);
    cfi.function(cie, 0x1020, 32, STUBS);
    let converted = cfi.convert(merging(16));
    assert_eq!(functions(&converted), [(0x1000, 32, 2), (0x1020, 32, 2)]);
    let table = converted.table();
    assert!(table.functions().all(|function| function.unwrap().is_pc_mask()));
}

/// Before its first row a function has no row. It must not get its neighbour's.
#[test]
fn functions_without_a_row_at_their_start_are_not_merged() {
    let mut cfi = EhFrame::new();
    let (with, without) = (cfi.cie(b"zR", AT_ENTRY), cfi.cie(b"zR", &[]));
    cfi.function(with, 0x1000, 16, &[]);
    cfi.function(without, 0x1010, 16, &[0x44, 0x0c, 7, 8]);
    let converted = cfi.convert(merging(16));
    assert_eq!(functions(&converted), [(0x1000, 16, 1), (0x1010, 16, 1)]);
    assert_eq!(converted.table().lookup(Address(0x1013)).unwrap(), None);
}

/// The row of the last instruction starts at the function's end, so only a longer function has it.
#[test]
fn equal_except_for_the_last_byte() {
    let mut cfi = EhFrame::new();
    let cie = cfi.cie(b"zR", AT_ENTRY);
    let instructions = [0x41, 0x0e, 16, 0x4f, 0x0e, 24];
    // Functions are remembered only in batches, so there are many.
    for number in 0..100 {
        let size = if number < 50 { 16 } else { 17 };
        cfi.function(cie, 0x1000 + number * 0x20, size, &instructions);
    }
    let rows: Vec<_> =
        functions(&cfi.convert(Options::default())).iter().map(|function| function.2).collect();
    assert_eq!(rows, [[2; 50], [3; 50]].concat());
}

/// Version 2 counts a function's rows in 32 bits.
#[test]
fn a_large_function_of_version_2() {
    let mut cfi = EhFrame::new();
    let cie = cfi.cie(b"zR", AT_ENTRY);
    let instructions = [0x41, 0x0e, 16, 0x41, 0x0e, 8].repeat(35_000);
    cfi.function(cie, 0x1000, 70_001, &instructions);
    let options = Options::new().with_version(Version::V2);
    assert_eq!(functions(&cfi.convert(options)), [(0x1000, 70_001, 70_001)]);
}

#[test]
fn stubs_too_large_for_a_function() {
    let omitted = |start: u32, instructions: &[u8]| {
        let mut cfi = EhFrame::new();
        let cie = cfi.cie(b"zR", AT_ENTRY);
        cfi.function(cie, start, 0x40, instructions);
        let converted = cfi.convert(Options::default());
        let reason = |left: &Unsupported| (left.function, left.reason);
        (converted.omitted.first().map(reason), functions(&converted))
    };
    // PLT0, where the linker's word is pushed, followed by stubs.
    let plt = [&[0x0e, 16, 0x46, 0x0e, 24, 0x4a], STUBS].concat();
    let (reason, found) = omitted(0x1000, &plt);
    assert_eq!((reason, found), (None, vec![(0x1000, 16, 2), (0x1010, 48, 2)]));
    let refused = |start, reason| (Some((Key(start), reason)), vec![]);
    assert_eq!(omitted(0x1008, &plt), refused(0x1008, Reason::StubAlignment));
    // Stubs start at a multiple of 16, wherever the code before them ends.
    let short = [&[0x0e, 16, 0x46, 0x0e, 24, 0x42], STUBS].concat();
    assert_eq!(omitted(0x1008, &short).1, [(0x1008, 8, 2), (0x1010, 56, 2)]);
    // Another row follows the stubs.
    let longer = [&plt[..], &[0x60, 0x0c, 7, 8]].concat();
    assert_eq!(omitted(0x1000, &longer), refused(0x1000, Reason::CfaExpression));
}

/// ld 2.47 chooses the width of starts by the size of the whole PLT. The expected tables are ld's for lazy PLTs of 14
/// and 15 entries.
#[test]
fn starts_of_stubs_are_as_wide_as_ld_makes_them() {
    let plt = [&[0x0e, 16, 0x46, 0x0e, 24, 0x4a], STUBS].concat();
    let narrow = [2, 0, 0, 0, 0, 0, 3, 16, 6, 3, 24, 2, 0, 0x10, 0, 16, 0, 3, 8, 11, 3, 16];
    let wide = [2, 0, 1, 0, 0, 0, 0, 3, 16, 6, 0, 3, 24, 2, 0, 0x11, 0, 16, 0, 0, 3, 8, 11, 0, 3, 16];
    for (size, expected) in [(0xf0, &narrow[..]), (0x100, &wide)] {
        let mut cfi = EhFrame::new();
        let cie = cfi.cie(b"zR", AT_ENTRY);
        cfi.function(cie, 0x1000, size, &plt);
        let converted = cfi.convert(Options::new().with_layout(Layout::Gnu));
        assert!(converted.bytes.ends_with(expected), "{size}: {:x?}", converted.bytes);
    }
}

/// Functions that a linker folds end up at one address.
#[test]
fn equal_starts_stay_in_order() {
    let mut frames = EhFrame::new();
    let cie = frames.cie(b"zR", AT_ENTRY);
    let sizes = [(0x2000, 8), (0x1000, 6), (0x1010, 4), (0x1020, 5)];
    sizes.into_iter().for_each(|(start, size)| frames.function(cie, start, size, &[]));
    let section = frames.0.section();
    let mut builder = Builder::new(Arch::Amd64, Options::default()).unwrap();
    builder.push_all(cfipack_cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
    let bytes = builder.finish().into_bytes(TABLE, |start: Key| Address(start.0 & !0xff)).unwrap();
    let table = cfipack_decoder::sframe::Section::parse(&bytes, TABLE).unwrap();
    let found = table.functions().map(|it| it.unwrap()).map(|it| (it.start().0, it.size()));
    assert_eq!(found.collect::<Vec<_>>(), [(0x1000, 6), (0x1000, 4), (0x1000, 5), (0x2000, 8)]);
}

/// gas ignores where the caller's stack pointer is saved, even if that holds only between two rows.
#[test]
fn a_stack_pointer_that_is_not_the_cfa_for_a_while() {
    let mut frames = EhFrame::new();
    let cie = frames.cie(b"zR", AT_ENTRY);
    // nop, saved at CFA-24 or of the same value, nop, as before, nop, def_cfa_offset 16, nop
    frames.function(cie, 0x1000, 4, &[0x41, 0x87, 3, 0x41, 0xc7, 0x41, 0x0e, 16]);
    frames.function(cie, 0x1010, 4, &[0x41, 0x08, 7, 0x41, 0xc7, 0x41, 0x0e, 16]);
    for layout in [Layout::Gnu, Layout::Small] {
        let converted = frames.convert(Options::new().with_layout(layout));
        let reasons: Vec<_> = converted.omitted.iter().map(|unsupported| unsupported.reason).collect();
        assert_eq!(reasons, [Reason::StackPointerRule; 2], "{layout:?}");
    }
}

/// The FREs as gas 2.45 writes them for r11 in f0 and the return address in f1 (erratum 1 of version 2): the info
/// bytes of one and of three words, 0 for a return address in r14, and twice the register's number plus 1.
#[test]
fn registers_in_registers_of_s390x_in_version_2() {
    let mut frames = Writer::new(SectionKind::EhFrame, Arch::S390x, Address(0));
    let cie = frames.cie(&Cie::new(Arch::S390x, &[0x0c, 15, 0xa0, 1])).unwrap();
    // advance 4, r11 in f0 (16), advance 4, r14 in f1 (17)
    frames.fde(&cie, Address(0x1000), 0x40, None, &[0x44, 0x09, 11, 16, 0x44, 0x09, 14, 17]).unwrap();
    let section = frames.section();
    for layout in [Layout::Gnu, Layout::Small] {
        let options = Options::new().with_layout(layout).with_version(Version::V2);
        let converted = convert(&[section], Arch::S390x, TABLE, options);
        assert!(converted.omitted.is_empty(), "{layout:?} {:?}", converted.omitted);
        let fres = [0, 3, 0, 4, 7, 0, 0, 0x21, 8, 7, 0, 0x23, 0x21];
        assert!(converted.bytes.ends_with(&fres), "{layout:?} {:x?}", converted.bytes);
        assert!(converted.verify(&[section]).is_complete());
    }
}

/// On s390x the caller's stack pointer must be r15 at entry, 160 bytes below the CFA.
#[test]
fn stack_pointers_of_s390x() {
    for (expression, is_cfa) in [(&[0x7f, 0][..], true), (&[0x7f, 8], false)] {
        let mut frames = Writer::new(SectionKind::EhFrame, Arch::S390x, Address(0));
        let cie = frames.cie(&Cie::new(Arch::S390x, &[0x0c, 15, 0xa0, 1])).unwrap();
        // nop, DW_CFA_val_expression r15
        let instructions = [&[0x42, 0x16, 15, 2], expression].concat();
        frames.fde(&cie, Address(0x1000), 4, None, &instructions).unwrap();
        let section = frames.section();
        let converted = convert(&[section], Arch::S390x, TABLE, Options::default());
        assert_eq!(converted.omitted.is_empty(), is_cfa, "{:?}", converted.omitted);
        assert!(converted.verify(&[section]).is_true());
    }
}

/// Version 2 omits functions out of reach by name. The other bytes have exactly the computed size.
#[test]
fn functions_too_far_from_a_table_of_version_2() {
    let mut frames = EhFrame::new();
    let cie = frames.cie(b"zR", AT_ENTRY);
    for (number, start) in [0x1000, 0x1010, 0x7fff_f000].into_iter().enumerate() {
        frames.function(cie, start, 0x10, &[0x41, 0x0e, 16 + 8 * number as u8]);
    }
    let section = frames.0.section();
    // The first two functions are 2 GiB plus 16 bytes, and exactly 2 GiB, before the table.
    let table = Address(0x1010 + (1 << 31));
    for (version, merge_functions) in [(Version::V2, 0), (Version::V2, 16), (Version::V3, 0)] {
        let mut builder = Builder::new(Arch::Amd64, merging(merge_functions).with_version(version)).unwrap();
        builder.push_all(cfipack_cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
        let mut built = builder.finish();
        let whole = built.len();
        let write = |built: &cfipack_encoder::sframe::Section<'_>| {
            let mut bytes = vec![0; built.len()];
            built.write(&mut bytes, table, Key::address).map(|_| bytes)
        };
        if version == Version::V2 {
            let (function, key) = (Address(0x1000), Some(Key(0x1000)));
            let too_far = WriteError::StartTooFar { function, key, distance: -(1 << 31) - 16 };
            assert_eq!(write(&built), Err(too_far), "{merge_functions}");
        }
        built.omit_distant(table, Key::address);
        let bytes = write(&built).unwrap();
        let parsed = cfipack_decoder::sframe::Section::parse(&bytes, table).unwrap();
        parsed.validate().unwrap();
        let starts: Vec<_> = parsed.functions().map(|function| function.unwrap().start().0).collect();
        let omitted: Vec<_> = built.omitted().iter().map(|it| (it.function.0, it.reason)).collect();
        let reason = Reason::StartTooFar(-(1 << 31) - 16);
        match (version, merge_functions) {
            (Version::V3, _) => {
                assert_eq!((starts.len(), built.len(), omitted), (3, whole, vec![]));
            }
            (_, 0) => {
                assert_eq!(starts, [0x1010, 0x7fff_f000]);
                // A function has an FDE of 20 bytes, and two rows of a start, an info byte and a word.
                assert_eq!((omitted, whole - built.len()), (vec![(0x1000, reason)], 20 + 2 * 3));
            }
            // Both functions share one FDE.
            _ => {
                assert_eq!((starts, omitted), (vec![0x7fff_f000], vec![(0x1000, reason), (0x1010, reason)]));
            }
        }
    }
}
