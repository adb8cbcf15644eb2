//! The judge's answers for CFI that gimli needs help with, and for CFI that no table can represent.

use cfipack_cfi::SectionKind::{self, DebugFrame, EhFrame};
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, Cfa, Register, Row, Rule};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Functions};
use cfipack_roundtrip::unwind_info::{self, Code};
use cfipack_roundtrip::{Options, Report, Table, most_frequent_first, verify, verify_with_reasons};

use crate::made::{self, Cfi, FP2, Made, SP1, SP2, TABLE_ADDRESS, flex};
use crate::missing::of_the_encoder;

pub fn report(cfi: &Cfi, functions: &[Made]) -> Report {
    let section = cfi.section();
    let bytes = made::table(section.arch, functions);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    verify(&[section], &Table::new(&sections), &Options::default())
}

/// Returns the judge's answers for the only function, range by range.
fn answers(cfi: &Cfi) -> Vec<(u64, u64, Answer)> {
    let functions = Functions::find(&[cfi.section()]);
    let [function] = functions.as_slice() else { panic!("{functions:?}") };
    let mut found = Vec::new();
    let mut evaluator = Evaluator::new(&functions);
    evaluator.evaluate(function, |range, answer, _| found.push((range.start, range.end, *answer))).unwrap();
    found
}

fn amd64(size: u64, instructions: &[u8]) -> Cfi {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, size, instructions);
    cfi
}

fn sp(offset: i64) -> Cfa {
    Cfa::Register { register: Register(7), offset }
}

/// A function inside another function hides the PCs after it, because a search in `.eh_frame_hdr` does not find them.
#[test]
fn functions_inside_others() {
    let (mut cfi, cie) = Cfi::amd64();
    let row: &[(u8, u8, &[u8])] = &[(0, SP1, &[8])];
    for (start, size) in [(0x1000, 0x40), (0x1010, 8), (0x1020, 8), (0x1060, 0x10), (0x1068, 0x10)] {
        cfi.fde(cie, start, size, &[]);
    }
    let table = [(0x1000, 0x40), (0x1010, 8), (0x1020, 8), (0x1060, 0x10), (0x1068, 0x10)];
    let report = report(&cfi, &table.map(|(start, size)| Made::new(start, size, row)));
    assert!(report.is_true() && !report.is_complete());
    assert_eq!((report.functions, report.equal, report.pcs, report.pcs_equal), (5, 5, 0x38, 0x38));
    assert_eq!(report.pcs_hidden, 8 + 0x18);
}

/// gas 2.47 marks signal frames in `.debug_frame` with the single letter `S`.
#[test]
fn signal_frame_of_debug_frame() {
    let mut cfi = Cfi::new(Arch::Amd64, DebugFrame);
    let cie = cfi.cie(b"S", &[], &[0x0c, 7, 8, 0x90, 1]);
    cfi.fde_with(cie, 0x1000, 2, &[], &[]);
    let mut function = Made::new(0x1000, 2, &[(0, SP1, &[8])]);
    assert_eq!(report(&cfi, &[function.clone()]).pcs_different, 2);
    function.info = 0x80;
    assert!(report(&cfi, &[function]).is_complete());
    let signal_frames =
        cfipack_cfi::Functions::new(&cfi.section()).map(|function| function.unwrap().cie.signal_frame);
    assert_eq!(signal_frames.collect::<Vec<_>>(), [true]);
}

/// gas puts `.cfi_restore` before a function's first instruction into the CIE.
#[test]
fn restore_in_a_cie() {
    let with = |augmentation: &[u8], instructions: &[u8]| {
        let mut cfi = Cfi::new(Arch::Amd64, EhFrame);
        let cie = cfi.cie(augmentation, &[1, 0], instructions);
        cfi.fde(cie, 0x1000, 2, &[0x41, 0x0e, 16]);
        report(&cfi, &[Made::new(0x1000, 2, &[(0, SP1, &[8]), (1, SP1, &[16])])])
    };
    let harmless: [&[u8]; 6] = [
        &[0xc6, 0x0c, 7, 8, 0x90, 1],
        &[0x0c, 7, 8, 0x90, 1, 0xc6],
        &[0x0c, 7, 8, 0x90, 1, 6, 6],
        &[0x0c, 7, 8, 6, 0x86, 0, 0x90, 1, 0xc6, 0xc3],
        // def_cfa rbx+0x46, then rsp+8. Some operands look like the instruction.
        &[0x0c, 3, 0xc6, 0, 0x0c, 7, 8, 0x90, 1, 0xc6],
        // rbx at an expression with a byte that looks like the instruction.
        &[0x0c, 7, 8, 0x90, 1, 0x10, 3, 3, 0x77, 0xc6, 0, 0xc6],
    ];
    for instructions in harmless {
        for augmentation in [&b"zR"[..], b"zRB"] {
            let found = with(augmentation, instructions);
            assert!(found.is_complete(), "{instructions:x?}: {found:#?}");
        }
    }
    // In these CIEs it is not clear which rule the instruction restores.
    let unclear: [&[u8]; 3] = [
        &[0x0c, 7, 8, 0x90, 1, 0x86, 2, 0xc6],
        &[0x0c, 7, 8, 0x90, 1, 0xd0],
        &[0x0c, 7, 8, 0x90, 1, 0x0a, 0xc6],
    ];
    for instructions in unclear {
        assert_eq!(with(b"zR", instructions).unjudged, 1, "{instructions:x?}");
    }
}

#[test]
fn unknown_augmentation() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 2, &[]);
    let unknown = cfi.cie(b"zQ", &[1, 0], &[]);
    cfi.fde(unknown, 0x1002, 2, &[]);
    let found = report(&cfi, &[Made::new(0x1000, 2, &[(0, SP1, &[8])])]);
    assert_eq!((found.functions, found.equal, found.unjudged), (2, 1, 1));
    assert_eq!(found.reasons.values().sum::<u64>(), 1);
    assert!(!found.is_complete());
}

#[test]
fn terminators_duplicates_and_empty_functions() {
    for kind in [EhFrame, DebugFrame] {
        let mut cfi = Cfi::new(Arch::Amd64, kind);
        let cie = cfi.cie(b"zR", &[1, 0], &[0x0c, 7, 8, 0x90, 1]);
        // FDEs out of order, two FDEs with the same start, and empty FDEs at a function's start and within it.
        cfi.fde(cie, 0x1010, 4, &[]);
        cfi.terminator();
        cfi.fde(cie, 0x1000, 8, &[]);
        cfi.fde(cie, 0x1000, 8, &[0x41, 0x0e, 8]);
        cfi.fde(cie, 0x1000, 0, &[]);
        cfi.fde(cie, 0x1004, 0, &[]);
        cfi.terminator();
        let table = [
            Made::new(0x1000, 8, &[(0, SP1, &[8])]),
            Made::new(0x1004, 0, &[(0, SP1, &[99])]),
            Made::new(0x1010, 4, &[(0, SP1, &[8])]),
        ];
        let found = report(&cfi, &table);
        assert!(found.is_complete(), "{found:#?}");
        assert_eq!((found.functions, found.duplicates, found.pcs), (4, 1, 12));
    }
}

/// If FDEs with the same start disagree, it is not known which FDE describes the code. So no table is right or wrong.
#[test]
fn duplicates_that_disagree() {
    let others: [(u64, &[u8]); 3] = [(8, &[0x41, 0x0e, 99]), (4, &[]), (12, &[])];
    for (size, instructions) in others {
        let (mut cfi, cie) = Cfi::amd64();
        cfi.fde(cie, 0x1000, 8, &[]);
        cfi.fde(cie, 0x1000, size, instructions);
        cfi.fde(cie, 0x1010, 4, &[]);
        let longest = size.max(8);
        let table =
            [Made::new(0x1000, longest as u32, &[(0, SP1, &[8])]), Made::new(0x1010, 4, &[(0, SP1, &[8])])];
        let found = report(&cfi, &table);
        assert_eq!((found.functions, found.equal, found.unjudged, found.duplicates), (2, 1, 1, 1));
        assert_eq!((found.pcs_equal, found.pcs_unjudged), (4, longest));
        assert_eq!(found.unverified[0].function, Some(Address(0x1000)));
        assert!(found.is_true() && !found.is_complete(), "{found:#?}");
        let empty = unwind_info::Table::of_object(Arch::Amd64, Vec::new(), Code::new([]));
        let found = unwind_info::verify(&[cfi.section()], &empty, &Options::default());
        assert_eq!((found.functions, found.unjudged, found.pcs_unjudged), (2, 1, longest));
    }
}

#[test]
fn truncated_record() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 2, &[]);
    cfi.raw(&[0xf0, 0xff, 0, 0, 1, 0, 0, 0]);
    let found = report(&cfi, &[Made::new(0x1000, 2, &[(0, SP1, &[8])])]);
    assert_eq!((found.functions, found.equal, found.unjudged), (2, 1, 1));
}

/// BOLT writes rows at a function's end and beyond.
#[test]
fn rows_beyond_the_end_are_trimmed() {
    let cfi = amd64(2, &[0x41, 0x0e, 16, 0x41, 0x0e, 24, 0x44, 0x0e, 32]);
    assert!(report(&cfi, &[Made::new(0x1000, 2, &[(0, SP1, &[8]), (1, SP1, &[16])])]).is_complete());
    assert!(
        report(&cfi, &[Made::new(0x1000, 2, &[(0, SP1, &[8]), (1, SP1, &[16]), (2, SP1, &[24])])])
            .is_complete()
    );
}

/// gimli's own storage has room for only 3 remembered states.
#[test]
fn deeply_remembered_states() {
    let mut instructions = Vec::new();
    for depth in 1..=20 {
        instructions.extend([0x41, 0x0a, 0x0e, 8 + depth]);
    }
    instructions.extend([0x0b].repeat(20));
    let mut rows: Vec<(u8, u8, Vec<u8>)> = (0..20).map(|i| (i, SP1, vec![8 + i])).collect();
    rows.push((20, SP1, vec![8]));
    let made = Made { rows, ..Made::new(0x1000, 21, &[]) };
    assert!(report(&amd64(21, &instructions), &[made]).is_complete());

    let found = report(&amd64(21, &[0x0a; 40]), &[Made::new(0x1000, 21, &[(0, SP1, &[8])])]);
    assert_eq!((found.unjudged, found.pcs_unjudged, found.pcs_different), (1, 21, 0));
}

/// A function is judged up to the first instruction that gimli does not know.
#[test]
fn unknown_instruction() {
    let cfi = amd64(8, &[0x44, 0x1c]);
    let found = report(&cfi, &[Made::new(0x1000, 8, &[(0, SP1, &[8])])]);
    assert_eq!((found.pcs_equal, found.pcs_unjudged, found.unjudged), (4, 4, 1));
    let found = report(&cfi, &[Made::new(0x1000, 8, &[(0, SP1, &[16])])]);
    assert_eq!((found.pcs_different, found.pcs_unjudged, found.different), (4, 4, 1));
}

/// ld's lazy PLT: `rsp + 8 + (((rip & 15) >= 11) << 3)`, as a PC-mask function.
#[test]
fn plt() {
    let expression = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let cfi = amd64(0x40, &[&[0x0f, 11][..], &expression].concat());
    let mut made = Made::new(0x1000, 0x40, &[(0, SP1, &[8]), (11, SP1, &[16])]);
    (made.info, made.rep_size) = (0x10, 16);
    assert!(report(&cfi, &[made.clone()]).is_complete());

    made.rows[1].0 = 9;
    let found = report(&cfi, &[made.clone()]);
    assert_eq!((found.pcs_different, found.pcs_equal), (8, 0x38));
    assert_eq!((found.differences[0].start.0, found.differences[0].end.0), (0x1009, 0x100b));

    // The expression takes the address modulo 16, and a PC-mask function counts from its start.
    made.rows[1].0 = 11;
    let (mut askew, cie) = Cfi::amd64();
    askew.fde(cie, 0x1008, 0x40, &[&[0x0f, 11][..], &expression].concat());
    made.start = 0x1008;
    assert_eq!(report(&askew, &[made.clone()]).pcs_different, 4 * 10);

    // A PLT of gigabytes costs no time.
    made.start = 0x1000;
    made.size = u32::MAX;
    let cfi = amd64(u32::MAX.into(), &[&[0x0f, 11][..], &expression].concat());
    assert!(report(&cfi, &[made.clone()]).is_complete());
    made.rep_size = 255;
    assert!(report(&cfi, &[made.clone()]).pcs_different > 1 << 30);
    made.rep_size = 0;
    assert_eq!(report(&cfi, &[made]).pcs_different, u64::from(u32::MAX));

    // An expression that is not a PLT's: 4 in place of 3.
    let mut other = expression;
    other[8] = 0x34;
    assert!(matches!(
        answers(&amd64(1, &[&[0x0f, 11][..], &other].concat()))[..],
        [(.., Answer::Row(Row { cfa: Cfa::Expression, .. }))]
    ));
}

#[test]
fn flex_rows() {
    // CFA = *(rbp-8), rbp at rbp+0: gcc's DRAP.
    let cfi = amd64(4, &[0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0]);
    let mut made = Made::new(0x1000, 4, &[(0, flex(5), &[0x33, 0xf8, 0, 0x33, 0])]);
    made.flex = true;
    assert!(report(&cfi, &[made.clone()]).is_complete());
    made.rows[0].2[1] = 0xf0;
    assert_eq!(report(&cfi, &[made.clone()]).pcs_different, 4);
    // Not dereferenced.
    made.rows[0].2[..2].copy_from_slice(&[0x31, 0xf8]);
    assert_eq!(report(&cfi, &[made.clone()]).pcs_different, 4);
    // rbp in rax; return address in r11.
    let cfi = amd64(4, &[0x09, 6, 0, 0x09, 16, 11]);
    made.rows[0] = (0, flex(6), vec![0x39, 8, 0x59, 0, 0x01, 0]);
    assert!(report(&cfi, &[made.clone()]).is_complete());
    // Equal rules in another form: rbp at rsp-8 is rbp at CFA-16.
    let cfi = amd64(4, &[0x86, 2]);
    made.rows[0] = (0, flex(5), vec![0x39, 8, 0, 0x3b, 0xf8]);
    assert!(report(&cfi, &[made]).is_complete());
}

#[test]
fn callers_stack_pointer() {
    let only = |cfi: &Cfi| match answers(cfi)[..] {
        [(.., answer)] => answer,
        ref other => panic!("{other:?}"),
    };
    // The signal trampoline: CFA = *(rsp+160), rsp at rsp+160, rip at rsp+168, rbp at rsp+120.
    let trampoline = [
        &[0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 7, 3, 0x77, 0xa0, 1][..],
        &[0x10, 16, 3, 0x77, 0xa8, 1, 0x10, 6, 3, 0x77, 0xf8, 0],
    ]
    .concat();
    let memory = |offset| Rule::Memory { register: Register(7), offset };
    assert_eq!(
        only(&amd64(2, &trampoline)),
        Answer::Row(Row {
            cfa: Cfa::Memory { register: Register(7), offset: 160 },
            return_address: memory(168),
            frame_pointer: memory(120),
            ..Row::at_entry(Arch::Amd64)
        })
    );
    // val_offset 0, val_expression rsp+8: the CFA.
    for same in [&[0x14, 7, 0][..], &[0x16, 7, 2, 0x77, 8]] {
        assert!(matches!(only(&amd64(2, same)), Answer::Row(Row { cfa, .. }) if cfa == sp(8)), "{same:x?}");
    }
    // The same value (Haskell), also as a register, val_offset 8, saved at CFA-8 (longjmp), in rdx, val_expression
    // rsp+16, saved elsewhere, undefined.
    let others = [
        &[0x08, 7][..],
        &[0x09, 7, 7],
        &[0x14, 7, 1],
        &[0x87, 1],
        &[0x09, 7, 1],
        &[0x16, 7, 2, 0x77, 16],
        &[0x10, 7, 2, 0x77, 0],
        &[0x07, 7],
    ];
    for other in others {
        let cfi = amd64(2, other);
        assert!(matches!(only(&cfi), Answer::StackPointer { .. }), "{other:x?}");
        let empty = Table::new(&[]);
        let options = Options::default();
        let found = verify_with_reasons(&[cfi.section()], &empty, &options, of_the_encoder);
        assert_eq!((found.missing, found.pcs_missing), (1, 2));
        assert_eq!(most_frequent_first(&found.reasons), [("stack-pointer-rule", 1)]);
        let found = report(&cfi, &[Made::new(0x1000, 2, &[(0, SP1, &[8])])]);
        assert_eq!((found.different, found.pcs_different), (1, 2));
    }
}

/// DWARF 5, 6.4.1: with the rule "same value", the caller's stack pointer is the frame's. That is what a row says only
/// where the CFA is the stack pointer, or on s390x 160 bytes above it. gdb 13.1 unwinds so.
#[test]
fn a_stack_pointer_of_the_same_value() {
    let cases: [(Arch, u8, &[u8], &[u8]); 2] =
        [(Arch::Aarch64, 31, &[0], &[16]), (Arch::S390x, 15, &[0xa0, 1], &[0xc0, 2])];
    for (arch, register, at_entry, deeper) in cases {
        for rule in [&[0x08, register][..], &[0x09, register, register]] {
            for (offset, is_cfa) in [(at_entry, true), (deeper, false)] {
                let mut cfi = Cfi::new(arch, EhFrame);
                let cie = cfi.cie(b"zR", &[1, 0], &[&[0x0c, register][..], offset].concat());
                cfi.fde(cie, 0x1000, 4, rule);
                let [(.., answer)] = answers(&cfi)[..] else { panic!("{arch}") };
                assert_eq!(matches!(answer, Answer::Row(_)), is_cfa, "{arch} {rule:x?} {offset:x?}");
                assert_eq!(matches!(answer, Answer::StackPointer { rule: Rule::SameValue, .. }), !is_cfa);
                let empty = Table::new(&[]);
                let found =
                    verify_with_reasons(&[cfi.section()], &empty, &Options::default(), of_the_encoder);
                let reason = if is_cfa { "not-in-the-table" } else { "stack-pointer-rule" };
                assert_eq!(
                    most_frequent_first(&found.reasons),
                    [(reason, 1)],
                    "{arch} {rule:x?} {offset:x?}"
                );
            }
        }
    }
}

#[test]
fn s390x() {
    let mut cfi = Cfi::new(Arch::S390x, EhFrame);
    let cie = cfi.cie(b"zR", &[1, 0], &[0x0c, 15, 0xa0, 1]);
    // advance 6: r11 at CFA-72, r14 at CFA-48, r15 at CFA-40; advance 6: CFA = r15+320
    cfi.fde(cie, 0x1000, 20, &[0x46, 0x8b, 9, 0x8e, 6, 0x8f, 5, 0x46, 0x0e, 0xc0, 2]);
    let rows: [(u8, u8, &[u8]); 3] = [(0, 3, &[0]), (6, 7, &[0, 0xd0, 0xb8]), (12, 7, &[20, 0xd0, 0xb8])];
    let mut made = Made::new(0x1000, 20, &rows);
    let found = report(&cfi, &[made.clone()]);
    assert!(found.is_complete(), "{found:#?}");
    made.rows[2].2[0] = 21;
    let found = report(&cfi, &[made]);
    assert_eq!(found.pcs_different, 8);
    assert_eq!(
        found.differences[0].to_string(),
        "0x100c..0x1014 in the function at 0x1000: CFI: CFA = r15+320, return address at CFA-48, r11 at \
         CFA-72; table: CFA = r15+328, return address at CFA-48, r11 at CFA-72"
    );
}

#[test]
fn outermost_and_nothing() {
    // With an undefined return address, no other rule of the CFI matters.
    let cfi = amd64(4, &[0x07, 16, 0x42, 0x0f, 2, 0x77, 0, 0x87, 1]);
    assert!(report(&cfi, &[Made::new(0x1000, 4, &[(0, 0, &[])])]).is_complete());
    assert_eq!(report(&cfi, &[Made::new(0x1000, 4, &[(0, SP1, &[8])])]).pcs_different, 4);

    // A function without a CFA, and a function with rax+0, which looks to gimli like no CFA.
    let mut cfi = Cfi::new(Arch::Amd64, EhFrame);
    let cie = cfi.cie(b"zR", &[1, 0], &[0x90, 1]);
    cfi.fde(cie, 0x1000, 4, &[]);
    cfi.fde(cie, 0x1010, 4, &[0x0c, 0, 0]);
    let mut rax = Made::new(0x1010, 4, &[(0, flex(2), &[0x01, 0])]);
    rax.flex = true;
    let found = report(&cfi, &[rax.clone()]);
    assert!(found.is_complete(), "{found:#?}");
    let found = report(&cfi, &[Made::new(0x1000, 4, &[(0, SP1, &[8])]), rax]);
    assert_eq!((found.equal, found.different, found.pcs_different), (1, 1, 4));
}

#[test]
fn other_return_column() {
    // The return address is in column 5. It is not saved at first, and then it is saved at CFA-8.
    let mut cfi = Cfi::new(Arch::Amd64, EhFrame);
    let cie = cfi.cie_with(b"zR", &[1, 0], &[0x0c, 7, 8], Register(5));
    cfi.fde(cie, 0x1000, 4, &[0x42, 0x85, 1]);
    let rules: Vec<_> = answers(&cfi)
        .into_iter()
        .map(|(start, _, answer)| match answer {
            Answer::Row(row) => (start, row.return_address),
            other => panic!("{other:?}"),
        })
        .collect();
    let r5 = Rule::Register { register: Register(5), offset: 0 };
    assert_eq!(rules, [(0x1000, r5), (0x1002, Rule::Cfa(-8))]);
}

/// If several functions of a table have the same start, a reader finds the last of them that has the PC.
#[test]
fn duplicates_in_the_table() {
    let cfi = amd64(8, &[0x44, 0x0e, 16]);
    let right = Made::new(0x1000, 8, &[(0, SP1, &[8]), (4, SP1, &[16])]);
    let wrong = Made::new(0x1000, 4, &[(0, SP1, &[24])]);
    assert!(report(&cfi, &[wrong.clone(), right.clone()]).is_complete());
    assert_eq!(report(&cfi, &[right.clone(), wrong]).pcs_different, 4);
    let first_half = Made::new(0x1000, 4, &[(0, SP1, &[8])]);
    assert!(report(&cfi, &[right, first_half]).is_complete());
}

/// Every answer of the cursor equals the decoder's own lookup.
#[test]
fn cursor_is_lookup() {
    let mut stubs = Made::new(0x1030, 0x25, &[(0, SP1, &[8]), (6, SP2, &[16, 0xf0])]);
    (stubs.info, stubs.rep_size) = (0x10, 8);
    let bytes = made::table(
        Arch::Amd64,
        &[
            Made::new(0x1000, 0x10, &[(1, SP1, &[8]), (3, SP1, &[9]), (3, SP1, &[10]), (16, SP1, &[11])]),
            Made::new(0x1000, 0x08, &[(0, FP2, &[8, 0xf0])]),
            Made::new(0x1020, 0x30, &[(0, SP1, &[12])]),
            Made::new(0x1028, 0x02, &[(0, SP1, &[13])]),
            Made::new(0x1028, 0x00, &[(0, SP1, &[14])]),
            stubs,
        ],
    );
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    let table = Table::new(&sections);
    let mut cursor = table.cursor();
    for pc in 0xff0..0x1080 {
        let found = match *cursor.seek(pc).at(pc) {
            cfipack_roundtrip::TableAnswer::Row(row, _) => Some(row),
            cfipack_roundtrip::TableAnswer::Nothing => None,
            other => panic!("{other:?}"),
        };
        let expected = sections[0].lookup(cfipack_format::Address(pc)).unwrap();
        assert_eq!(found, expected, "{pc:#x}");
    }
}

/// The functions of all sections of a file are judged together.
#[test]
fn two_sections() {
    let eh_frame = amd64(4, &[]);
    let mut debug_frame = Cfi::new(Arch::Amd64, SectionKind::DebugFrame);
    let cie = debug_frame.cie(b"", &[], &[0x0c, 7, 8, 0x90, 1]);
    debug_frame.fde_with(cie, 0x1000, 4, &[], &[]);
    debug_frame.fde_with(cie, 0x1004, 4, &[], &[0x0e, 16]);
    let made = [Made::new(0x1000, 4, &[(0, SP1, &[8])]), Made::new(0x1004, 4, &[(0, SP1, &[16])])];
    let bytes = made::table(Arch::Amd64, &made);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    let cfi = [eh_frame.section(), debug_frame.section()];
    let found = verify(&cfi, &Table::new(&sections), &Options::default());
    assert!(found.is_complete(), "{found:#?}");
    assert_eq!((found.functions, found.duplicates), (2, 1));
}
