//! CFI to which DWARF gives no meaning, and CFI that no row can hold. The judge calls no table right about such CFI.

use cfipack_cfi::SectionKind::EhFrame;
use cfipack_decoder::sframe::Section;
use cfipack_format::{Arch, Cfa, Register, Row, Rule};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Functions, Unevaluated, unjudged};
use cfipack_roundtrip::{Options, Report, Table, verify};

use crate::made::{self, Cfi, Made, SP1, TABLE_ADDRESS, flex};

fn report(cfi: &Cfi, functions: &[Made]) -> Report {
    let section = cfi.section();
    let bytes = made::table(section.arch, functions);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    verify(&[section], &Table::new(&sections), &Options::default())
}

/// Makes a function of 8 bytes at 0x1000.
fn function(arch: Arch, cie: &[u8], instructions: &[u8]) -> Cfi {
    let mut cfi = Cfi::new(arch, EhFrame);
    let cie = cfi.cie(b"zR", &[1, 0], cie);
    cfi.fde(cie, 0x1000, 8, instructions);
    cfi
}

/// Returns the judge's answers for the only function, and whether the judge reaches the function's end.
fn judged(cfi: &Cfi) -> (Vec<(u64, Answer)>, bool) {
    let functions = Functions::find(&[cfi.section()]);
    let [function] = functions.as_slice() else { panic!("{functions:?}") };
    let mut found = Vec::new();
    let mut evaluator = Evaluator::new(&functions);
    let result = evaluator.evaluate(function, |range, answer, _| found.push((range.start, *answer)));
    (found, result.is_ok())
}

const AT_ENTRY: &[u8] = &[0x0c, 7, 8, 0x90, 1];

/// If a function cannot be judged, the table is not wrong if it omits the function, and not right if it answers.
#[test]
fn unjudged_in_the_table_or_omitted() {
    // CFA = rsp+8 by an expression; advance 4; def_cfa_offset 32.
    let cfi = function(Arch::Amd64, AT_ENTRY, &[0x0f, 2, 0x77, 8, 0x44, 0x0e, 32]);
    let unjudged = |functions: &[Made]| {
        let found = report(&cfi, functions);
        assert_eq!((found.unjudged, found.pcs_unjudged, found.is_complete()), (1, 4, false));
        (found.unjudged_in_table, found.pcs_unjudged_in_table, found.is_faultless())
    };
    assert_eq!(unjudged(&[]), (0, 0, true));
    // The table has only the PCs that could be judged.
    assert_eq!(unjudged(&[Made::new(0x1000, 4, &[(0, SP1, &[8])])]), (0, 0, true));
    assert_eq!(unjudged(&[Made::new(0x1000, 8, &[(0, SP1, &[8]), (4, SP1, &[32])])]), (1, 4, false));
    assert_eq!(unjudged(&[Made::new(0x1000, 5, &[(0, SP1, &[8])])]), (1, 1, false));
    // A PC-mask function with stubs of 2 bytes. Only the second byte has a row.
    let mut stubs = Made::new(0x1000, 8, &[(1, SP1, &[8])]);
    (stubs.info, stubs.rep_size) = (0x10, 2);
    assert_eq!(unjudged(&[stubs]), (1, 2, false));
}

/// If FDEs with the same start disagree, a table without the function is not wrong. A record that cannot be read may
/// describe any code.
#[test]
fn disputed_and_unreadable() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 8, &[]);
    cfi.fde(cie, 0x1000, 8, &[0x41, 0x0e, 16]);
    let found = report(&cfi, &[]);
    assert_eq!((found.unjudged, found.unjudged_in_table, found.is_faultless()), (1, 0, true));
    let found = report(&cfi, &[Made::new(0x1000, 8, &[(0, SP1, &[8])])]);
    assert_eq!((found.unjudged_in_table, found.pcs_unjudged_in_table), (1, 8));
    assert!(!found.is_faultless());

    let (mut cfi, _) = Cfi::amd64();
    let unknown = cfi.cie(b"zQ", &[1, 0], &[]);
    cfi.fde(unknown, 0x1000, 2, &[]);
    let found = report(&cfi, &[]);
    assert_eq!((found.unjudged, found.unreadable, found.unjudged_in_table), (1, 1, 0));
    assert!(!found.is_faultless());
}

/// A table without these functions can be proven: a record that cannot be read, an instruction that gimli does not know and that nothing of its length replaces,
/// and two FDEs that disagree.
#[test]
fn fdes_that_no_table_can_be_proven_for() {
    let (mut cfi, cie) = Cfi::amd64();
    let mut offsets = Vec::new();
    let mut fde = |cfi: &mut Cfi, cie, start, instructions: &[u8]| {
        offsets.push(cfi.section().bytes.len());
        cfi.fde(cie, start, 8, instructions);
    };
    fde(&mut cfi, cie, 0x1010, &[0x41, 0x2f, 6, 65]);
    fde(&mut cfi, cie, 0x1020, &[]);
    fde(&mut cfi, cie, 0x1000, &[]);
    fde(&mut cfi, cie, 0x1000, &[0x41, 0x0e, 16]);
    let unknown = cfi.cie(b"zQ", &[1, 0], &[]);
    fde(&mut cfi, unknown, 0x1030, &[]);
    let rows: [(u8, u8, &[u8]); 1] = [(0, SP1, &[8])];
    let [proven, other] = [0x1020, 0x1030].map(|start| Made::new(start, 8, &rows));
    assert!(!report(&cfi, std::slice::from_ref(&proven)).has_unproven_rows());
    assert!(report(&cfi, &[proven.clone(), other]).has_unproven_rows());
    assert!(report(&cfi, &[Made::new(0x1010, 8, &rows), proven]).has_unproven_rows());
    let found = unjudged(&[cfi.section()]);
    let found: Vec<_> =
        found.iter().map(|it| (it.section, it.fde.0, it.reason == Unevaluated::Disputed)).collect();
    let expected = [(0, false), (2, true), (3, true), (4, false)];
    assert_eq!(found, expected.map(|(index, is_disputed)| (0, offsets[index], is_disputed)));
}

/// Before an instruction sets the CFA, gimli takes it for `register 0 + 0`, and lets instructions change it.
#[test]
fn a_cfa_that_is_not_set_is_not_changed() {
    let nothing = |instructions: &[u8]| judged(&function(Arch::Amd64, &[], instructions));
    let changes: [&[u8]; 4] = [&[0x0e, 16], &[0x13, 0x7e], &[0x0d, 7], &[0x0d, 0]];
    for change in changes {
        assert_eq!(nothing(change), (vec![], false), "{change:x?}");
        assert_eq!(nothing(&[&[0x44], change].concat()), (vec![(0x1000, Answer::Nothing)], false));
        // A state without a CFA is restored.
        let restored = [&[0x0a, 0x0c, 7, 8, 0x44, 0x0b], change].concat();
        let (found, is_judged) = nothing(&restored);
        assert_eq!((found.len(), is_judged), (1, false));
        // The CFA is set before it is changed.
        let (found, is_judged) = nothing(&[&[0x0c, 7, 8, 0x44], change].concat());
        assert_eq!((found.len(), is_judged), (2, true));
        assert_eq!(judged(&function(Arch::Amd64, change, &[])), (vec![], false));
    }
    let (found, _) = nothing(&[0x44, 0x0c, 0, 0]);
    let rax = Cfa::Register { register: Register(0), offset: 0 };
    assert_eq!(found[0].1, Answer::Nothing);
    assert!(matches!(found[1].1, Answer::Row(Row { cfa, .. }) if cfa == rax), "{found:?}");
    // A CIE that sets a CFA, and restores the state without it.
    let (found, _) = judged(&function(Arch::Amd64, &[0x0a, 0x0c, 7, 8, 0x0b], &[]));
    assert_eq!(found, [(0x1000, Answer::Nothing)]);
}

/// The ABI of AArch64 lets a rule give the state of the signature. A row has only a bit for the state.
#[test]
fn a_rule_for_the_sign_state() {
    let row = Made::new(0x1000, 8, &[(0, 0x03, &[0])]);
    let cie = [0x0c, 31, 0];
    // DW_CFA_val_expression: lit2, breg0 0; DW_CFA_offset.
    for rule in [&[0x16, 34, 1, 0x32][..], &[0x16, 34, 2, 0x70, 0], &[0xa2, 1]] {
        let cfi = function(Arch::Aarch64, &cie, rule);
        assert!(matches!(judged(&cfi).0[..], [(0x1000, Answer::SignState(_))]), "{rule:x?}");
        let found = report(&cfi, std::slice::from_ref(&row));
        assert_eq!((found.pcs_different, found.differences.len()), (8, 1));
        let words = found.differences[0].to_string();
        assert!(words.contains("the state of the return address's signature is "), "{words}");
        assert_eq!(report(&cfi, &[]).pcs_missing, 8);
    }
    let as_at_entry = function(Arch::Aarch64, &cie, &[0x08, 34]);
    assert!(report(&as_at_entry, &[row]).is_complete());
    // In an outermost frame, no other rule matters.
    let outermost = function(Arch::Aarch64, &cie, &[0xa2, 1, 0x07, 30]);
    let is_outermost = |answer| matches!(answer, Answer::Row(Row { return_address: Rule::Undefined, .. }));
    assert!(is_outermost(judged(&outermost).0[0].1));
}

/// `DW_CFA_AARCH64_set_ra_state` (DWARF for the Arm 64-bit Architecture, 4.6), and Cranelift's rule with a constant: the
/// state holds from there on, is remembered and restored, and goes back to the CIE's. Advances are of 1 unit.
#[test]
fn states_that_are_set() {
    let unsigned = [0x0c, 31, 0];
    let states = |cie: &[u8], fde: &[u8]| {
        let (answers, is_judged) = judged(&function(Arch::Aarch64, cie, fde));
        let signed = |(_, answer): &(u64, Answer)| match answer {
            Answer::Row(row) => row.signed,
            other => panic!("{other:?}"),
        };
        (answers.iter().map(signed).collect::<Vec<_>>(), is_judged)
    };
    let judged = |signed: &[bool]| (signed.to_vec(), true);
    // lit1, lit0, const1u 1, constu 0, consts 1.
    for (block, signed) in [
        (&[1, 0x31][..], true),
        (&[1, 0x30], false),
        (&[2, 0x08, 1], true),
        (&[2, 0x10, 0], false),
        (&[2, 0x11, 1], true),
    ] {
        assert_eq!(states(&unsigned, &[&[0x41, 0x16, 34], block].concat()), judged(&[false, signed]));
    }
    let fde = [0x41, 0x2b, 1, 0x7f, 0x41, 0x0a, 0x2b, 0, 0, 0x41, 0x0b, 0x41, 0xc0 | 34];
    assert_eq!(states(&unsigned, &fde), judged(&[false, true, false, true, false]));
    // The CIE is signed, and a distance of two bytes.
    let signed = [0x0c, 31, 0, 0x2b, 0, 0, 0x2b, 1, 0xfc, 0x7f];
    assert_eq!(states(&signed, &[0x41, 0x2b, 0, 0, 0x41, 0x2b, 1, 0xfc, 0x7f]), judged(&[true, false, true]));
    assert_eq!(states(&signed, &[0x41, 0x2d, 0x41, 0x06, 34]), judged(&[true, false, true]));
    // The same bytes in an operand.
    let block = [0x41, 0x10, 19, 3, 0x2b, 1, 0, 0x41, 0x2d];
    assert_eq!(states(&unsigned, &block), judged(&[false, false, true]));
    // Signed with the PC, and a state without a meaning.
    for state in [2, 3] {
        assert_eq!(states(&unsigned, &[0x41, 0x2b, state, 0x7f]), (vec![false], false));
    }
}

/// Register 16 is the PC only on x86-64.
#[test]
fn the_plt_of_another_architecture() {
    let expression = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let instructions = [&[0x0f, 11][..], &expression].concat();
    let cfi = function(Arch::Aarch64, &[0x0c, 31, 0], &instructions);
    let (found, _) = judged(&cfi);
    assert!(matches!(found[0].1, Answer::Row(Row { cfa: Cfa::Expression, .. })), "{found:?}");
    // A row that is based on x7, as the expression is.
    let x7 = Made { flex: true, ..Made::new(0x1000, 8, &[(0, flex(2), &[0x39, 8])]) };
    assert_eq!(report(&cfi, &[x7]).pcs_different, 8);
}
