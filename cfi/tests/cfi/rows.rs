//! The rows that instructions produce: DWARF 5, section 6.4.2.

use cfipack_cfi::{Change, Interpreter, Registers, RowSink, Section, SectionKind, State};
use cfipack_format::{Address, Arch, Cfa, Register, Row, Rule};
use cfipack_format::{Reason, Unsupported};

use crate::{START, plain};

/// Ignores all registers that are not in the row.
#[derive(Clone, Copy, Debug)]
struct Nothing;

impl Registers for Nothing {
    fn at_entry(_: Arch) -> Self {
        Self
    }

    fn set(&mut self, _: Register, _: Rule) -> bool {
        false
    }

    fn ignored(&self, _: Arch) -> u64 {
        0
    }

    fn restore(&mut self, _: Register, _: &Self) -> bool {
        false
    }
}

/// Collects rows, each with the expression of its CFA.
#[derive(Default)]
struct Rows(Vec<(Row, Vec<u8>)>);

impl<'a> RowSink<'a, Nothing> for Rows {
    fn row(&mut self, state: &State<'a, Nothing>, _: Change) -> Result<(), Reason> {
        self.0.push((state.row, state.cfa_expression.to_vec()));
        Ok(())
    }
}

/// Returns the rows of a function of 0x100 bytes at 0x1000. Advances are in units of 4 bytes.
fn rows(arch: Arch, cie: &[u8], fde: &[u8]) -> Result<Vec<(Row, Vec<u8>)>, Unsupported> {
    let bytes = plain(cie, fde);
    let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), arch);
    let function = cfipack_cfi::Functions::new(&section).next().unwrap().unwrap();
    let mut rows = Rows::default();
    Interpreter::new().run(&function, &mut rows).map(|()| rows.0)
}

fn refused(fde: &[u8]) -> Option<(Reason, u64)> {
    let unsupported = rows(Arch::Amd64, &[0x0c, 7, 8], fde).err();
    unsupported.map(|unsupported| (unsupported.reason, unsupported.pc().0 - START))
}

/// `DW_CFA_expression` gives the register's place. A row loads from this place, and cannot represent a
/// further load. `DW_CFA_val_expression` gives the value, so a row can represent an expression with a load.
#[test]
fn what_an_expression_yields() {
    let at = Rule::Memory { register: Register(7), offset: 8 };
    let equal = Rule::Register { register: Register(7), offset: 8 };
    let table: [(&[u8], Rule); 4] = [
        (&[0x10, 6, 2, 0x77, 8], at),
        (&[0x10, 6, 3, 0x77, 8, 0x06], Rule::Expression),
        (&[0x16, 6, 2, 0x77, 8], equal),
        (&[0x16, 6, 3, 0x77, 8, 0x06], at),
    ];
    for (instruction, expected) in table {
        let rows = rows(Arch::Amd64, &[0x0c, 7, 8], instruction).unwrap();
        assert_eq!(rows[0].0.frame_pointer, expected, "{instruction:02x?}");
    }
}

/// The ABI of AArch64: RA_SIGN_STATE is register 34, and `DW_CFA_restore` restores the CIE's rule.
#[test]
fn the_sign_state_is_restored() {
    let signed = |cie: &[u8], fde: &[u8]| {
        let rows = rows(Arch::Aarch64, cie, fde).unwrap();
        rows.iter().map(|(row, _)| row.signed).collect::<Vec<_>>()
    };
    let unsigned_at_entry = [0x0c, 31, 0];
    assert_eq!(signed(&unsigned_at_entry, &[0x41, 0x2d, 0x41, 0xc0 | 34]), [false, true, false]);
    assert_eq!(signed(&unsigned_at_entry, &[0x2d, 0x41, 0x06, 34]), [true, false]);
    let signed_at_entry = [0x0c, 31, 0, 0x2d];
    assert_eq!(signed(&signed_at_entry, &[0x41, 0x2d, 0x41, 0xc0 | 34]), [true, false, true]);
}

/// The ABI of AArch64: `DW_CFA_AARCH64_set_ra_state` has the state and the place of the signing instruction. Cranelift
/// writes the state as a rule with a constant.
#[test]
fn the_sign_state_is_set() {
    let signed = |fde: &[u8]| {
        let rows = rows(Arch::Aarch64, &[0x0c, 31, 0], fde).unwrap();
        rows.iter().map(|(row, _)| row.signed).collect::<Vec<_>>()
    };
    // const2u 1, const4s 0.
    let rule = [0x41, 0x16, 34, 3, 0x0a, 1, 0, 0x41, 0x0a, 0x16, 34, 5, 0x0d, 0, 0, 0, 0, 0x41, 0x0b];
    assert_eq!(signed(&rule), [false, true, false, true]);
    let set = [0x41, 0x2b, 1, 0x7f, 0x41, 0x0a, 0x2b, 0, 0, 0x41, 0x0b, 0x41, 0xc0 | 34];
    assert_eq!(signed(&set), [false, true, false, true, false]);
    assert_eq!(refused(&[0x41, 0x2b, 1, 0]), Some((Reason::InstructionUnknown(0x2b), 4)));
}

/// The ABI of AArch64: a state that keeps its value is the state at entry, and no negation may follow this
/// rule. A row cannot represent a signature with a PC.
#[test]
fn the_sign_state_is_kept() {
    let unsigned = [0x0c, 31, 0];
    let kept = rows(Arch::Aarch64, &unsigned, &[0x41, 0x0e, 16, 0x08, 34, 0x41, 0x0e, 0]).unwrap();
    assert_eq!(kept.iter().map(|(row, _)| row.signed).collect::<Vec<_>>(), [false; 3]);
    let reason = |cie: &[u8], fde: &[u8]| rows(Arch::Aarch64, cie, fde).unwrap_err().reason;
    let kept_in_cie = [0x0c, 31, 0, 0x08, 34];
    let set_in_cie = [0x0c, 31, 0, 0x16, 34, 1, 0x31];
    for (cie, fde) in [
        (&unsigned[..], &[0x2d, 0x41, 0x08, 34][..]),
        (&unsigned, &[0x08, 34, 0x41, 0x2d]),
        (&kept_in_cie, &[0x41, 0x2d]),
        (&set_in_cie, &[0x41, 0x2d]),
        (&set_in_cie, &[0x41, 0x2b, 0, 0]),
        (&unsigned, &[0x41, 0x16, 34, 1, 0x33]),
        (&unsigned, &[0x41, 0x16, 34, 2, 0x70, 0]),
        (&unsigned, &[0x41, 0x2b, 3, 0]),
        (&unsigned, &[0x41, 0x07, 34]),
    ] {
        assert_eq!(reason(cie, fde), Reason::SignStateRule, "{cie:02x?} {fde:02x?}");
    }
    // DW_CFA_AARCH64_negate_ra_state_with_pc, and state 2.
    for with_pc in [&[0x41, 0x2c][..], &[0x41, 0x2b, 2, 0x7f], &[0x41, 0x16, 34, 1, 0x32]] {
        assert_eq!(reason(&unsigned, with_pc), Reason::SignedWithPc);
    }
    assert_eq!(refused(&[0x41, 0x2c]), Some((Reason::InstructionUnknown(0x2c), 4)));
}

/// DWARF 5, 6.4.2.3: an instruction changes only its own register's rule, also for x86-64's register 34.
#[test]
fn other_registers_have_no_part_in_the_sign_state() {
    for instruction in [&[0xc0 | 19][..], &[0x80 | 19, 2]] {
        let rows = rows(Arch::Aarch64, &[0x0c, 31, 0], &[&[0x2d, 0x41], instruction].concat()).unwrap();
        let signed: Vec<_> = rows.iter().map(|(row, _)| row.signed).collect();
        assert_eq!(signed, [true], "{instruction:02x?}");
    }
    for instruction in [&[0xc0 | 34][..], &[0x80 | 34, 2]] {
        let rows = rows(Arch::Amd64, &[0x0c, 7, 8], &[&[0x41], instruction].concat()).unwrap();
        assert_eq!(rows.len(), 1, "{instruction:02x?}");
    }
}

#[test]
fn an_expression_of_the_cie_holds_in_its_functions() {
    let rows = rows(Arch::Amd64, &[0x0f, 3, 0x77, 8, 0x1f], &[0x41, 0x0c, 7, 16]).unwrap();
    assert_eq!((rows[0].0.cfa, &rows[0].1[..]), (Cfa::Expression, &[0x77, 8, 0x1f][..]));
    let rsp_and_16 = Cfa::Register { register: Register(7), offset: 16 };
    assert_eq!((rows.len(), rows[1].0.cfa), (2, rsp_and_16));
}

/// DWARF 5, section 6.4.2.2: `DW_CFA_def_cfa_register` and `_offset` need a CFA that is a register and an
/// offset. An expression is not enough, even if it is equal to a register and an offset. Other readers
/// differ: `readelf -wF` 2.47 keeps the expression and changes the offset, gimli and LLVM refuse.
#[test]
fn an_expression_is_no_base() {
    // rsp+8, *(rsp+8), *(rsp+8)+8, and an empty expression.
    let expressions: [&[u8]; 4] = [&[2, 0x77, 8], &[3, 0x77, 8, 0x06], &[5, 0x77, 8, 0x06, 0x23, 8], &[0]];
    // def_cfa_offset with an operand of one and of two bytes, def_cfa_offset_sf, def_cfa_register.
    let changes: [&[u8]; 4] = [&[0x0e, 32], &[0x0e, 0xa0, 1], &[0x13, 0x70], &[0x0d, 6]];
    for expression in expressions.map(|expression| [&[0x0f], expression].concat()) {
        for change in changes {
            // With this padding, a separate loop reads the shortest forms.
            let change = [change, &[0x41, 0, 0, 0, 0]].concat();
            let refused = |cie: &[u8], fde: &[&[u8]]| {
                let unsupported = rows(Arch::Amd64, cie, &[&fde.concat()[..], &change].concat()).err()?;
                Some((unsupported.reason, unsupported.pc().0 - START))
            };
            let (plain, base) = (&[0x0c, 7, 8][..], Some((Reason::CfaWithoutBase, 4)));
            assert_eq!(refused(plain, &[&expression, &[0x41]]), base, "{expression:x?} {change:x?}");
            assert_eq!(refused(plain, &[&[0x41], &expression]), base);
            assert_eq!(refused(&expression, &[&[0x41]]), base);
            assert_eq!(refused(&[&expression[..], plain].concat(), &[&[0x41]]), None);
            assert_eq!(refused(plain, &[&expression, &[0x41], plain]), None);
            // `DW_CFA_restore_state` also restores whether the CFA is an expression.
            let remembered: [&[u8]; 4] = [&expression, &[0x0a], plain, &[0x41, 0x0b]];
            assert_eq!(refused(plain, &remembered), base);
            assert_eq!(refused(plain, &[&[0x0a], &expression, &[0x41, 0x0b]]), None);
        }
    }
    for change in changes {
        assert_eq!(rows(Arch::Amd64, &[], change).unwrap_err().reason, Reason::CfaWithoutBase);
        assert_eq!(rows(Arch::Amd64, change, &[]).unwrap_err().reason, Reason::CfaWithoutBase);
    }
}

/// `DW_CFA_restore` restores the CIE's rule. After a rule in the CIE itself, nothing can be restored.
#[test]
fn a_restore_in_the_cie() {
    let refused = |cie: &[u8]| {
        let cie = [&[0x0c, 7, 8], cie].concat();
        rows(Arch::Amd64, &cie, &[]).err().map(|unsupported| unsupported.reason)
    };
    // gas writes `DW_CFA_restore` into a CIE for a register without a rule.
    for harmless in [&[0xc6][..], &[0xc6, 0x86, 2], &[0x83, 2, 0xc6], &[6, 0x90, 1, 0x83, 2]] {
        assert_eq!(refused(harmless), None, "{harmless:x?}");
    }
    let rules: [&[u8]; 7] = [
        &[0x86, 2],
        &[0x07, 6],
        &[0x08, 6],
        &[0x14, 6, 2],
        &[0x09, 6, 3],
        &[0x10, 6, 2, 0x77, 8],
        &[0x16, 6, 2, 0x77, 8],
    ];
    for rule in rules {
        assert_eq!(refused(&[rule, &[0xc6]].concat()), Some(Reason::CieInstruction), "{rule:x?}");
        assert_eq!(refused(&[rule, &[0xc3]].concat()), None);
    }
    assert_eq!(refused(&[0x05, 0x90, 1, 2, 0x06, 0x90, 1]), Some(Reason::CieInstruction));
    // These instructions concern the whole state, or DWARF does not define them.
    for instruction in [&[0x0a][..], &[0x0a, 0x0b], &[0x2e, 8]] {
        let cie = [instruction, &[0xc6]].concat();
        assert_eq!(refused(&cie), Some(Reason::CieInstruction), "{instruction:x?}");
    }
    let signed = rows(Arch::Aarch64, &[0x0c, 31, 0, 0x2d, 0xc0 | 34], &[]);
    assert_eq!(signed.unwrap_err().reason, Reason::CieInstruction);
}

/// Alternates CIEs of several sections at the same offset. They differ in architecture or instructions.
#[test]
fn cies_of_several_sections() {
    let (cie, other) = ([0x0c, 7, 8], [0x0c, 6, 16]);
    let sections = [
        (Arch::Amd64, plain(&cie, &[]), Row::at_entry(Arch::Amd64).return_address, (7, 8)),
        (Arch::Aarch64, plain(&cie, &[]), Rule::SameValue, (7, 8)),
        (Arch::Amd64, plain(&other, &[]), Row::at_entry(Arch::Amd64).return_address, (6, 16)),
        (Arch::Amd64, plain(&cie, &[]), Row::at_entry(Arch::Amd64).return_address, (7, 8)),
        (Arch::Aarch64, plain(&other, &[]), Rule::SameValue, (6, 16)),
    ];
    let mut interpreter = Interpreter::new();
    for (number, (arch, bytes, return_address, (register, offset))) in sections.iter().enumerate() {
        let section = Section::new(SectionKind::EhFrame, bytes, Address(0), *arch);
        let function = cfipack_cfi::Functions::new(&section).next().unwrap().unwrap();
        let mut rows = Rows::default();
        interpreter.run(&function, &mut rows).unwrap();
        let [(row, _)] = &rows.0[..] else { panic!("{:?}", rows.0) };
        let cfa = Cfa::Register { register: Register(*register), offset: *offset };
        assert_eq!((row.cfa, row.return_address), (cfa, *return_address), "function {number}");
    }
}

#[test]
fn locations_that_are_set() {
    let set_loc = |address: u64| [&[0x41, 0x0e, 16, 0x01][..], &address.to_le_bytes(), &[0x0e, 24]].concat();
    let starts = |address| {
        let rows = rows(Arch::Amd64, &[0x0c, 7, 8], &set_loc(address)).unwrap();
        rows.iter().map(|(row, _)| row.start.0).collect::<Vec<_>>()
    };
    assert_eq!(starts(START + 0x20), [0, 4, 0x20]);
    assert_eq!(starts(START + 4), [0, 4]);
    // Addresses before the current location, or before the function.
    for address in [START + 3, START, START - 1, 0] {
        assert_eq!(refused(&set_loc(address)), Some((Reason::LocationBackwards, 4)), "{address:#x}");
    }
}

#[test]
fn states_nest_1024_deep() {
    assert_eq!(refused(&[0x0a; 1024]), None);
    assert_eq!(refused(&[0x0a; 1025]), Some((Reason::RememberDepth, 0)));
    assert_eq!(refused(&[&[0x0a; 2][..], &[0x0b; 3]].concat()), Some((Reason::RestoreWithoutRemember, 0)));
}
