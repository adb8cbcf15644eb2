//! What instructions mean: DWARF 5, section 6.4.2.

use cfipack_encoder::cfi::{Change, Interpreter, Registers, RowSink, Section, SectionKind, State};
use cfipack_encoder::{Reason, Unsupported};
use cfipack_format::{Address, Arch, Cfa, Register, Row, Rule};

use crate::{START, plain};

/// No register beside those of every row.
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

/// Rows, each with the expression of its CFA.
#[derive(Default)]
struct Rows(Vec<(Row, Vec<u8>)>);

impl<'a> RowSink<'a, Nothing> for Rows {
    fn row(&mut self, state: &State<'a, Nothing>, _: Change) -> Result<(), Reason> {
        self.0.push((state.row, state.cfa_expression.to_vec()));
        Ok(())
    }
}

/// The rows of a function of 0x100 bytes at 0x1000, advances in units of 4 bytes.
fn rows(arch: Arch, cie: &[u8], fde: &[u8]) -> Result<Vec<(Row, Vec<u8>)>, Unsupported> {
    let bytes = plain(cie, fde);
    let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), arch);
    let function = section.functions().next().unwrap().unwrap();
    let mut rows = Rows::default();
    Interpreter::new().run(&function, &mut rows).map(|()| rows.0)
}

fn refused(fde: &[u8]) -> Option<(Reason, u64)> {
    let unsupported = rows(Arch::Amd64, &[0x0c, 7, 8], fde).err();
    unsupported.map(|unsupported| (unsupported.reason, unsupported.pc.0 - START))
}

/// `DW_CFA_expression` gives the place of the register, so a load in it is one too many for a row;
/// `DW_CFA_val_expression` gives the value, where that load is the only one.
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

/// The ABI of AArch64: RA_SIGN_STATE is register 34, and `DW_CFA_restore` gives it back its rule of the CIE.
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

/// DWARF 5, 6.4.2.3: an instruction changes the rule of its register alone. On x86-64, register 34 is one like any other.
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

#[test]
fn locations_that_are_set() {
    let set_loc = |address: u64| [&[0x41, 0x0e, 16, 0x01][..], &address.to_le_bytes(), &[0x0e, 24]].concat();
    let starts = |address| {
        let rows = rows(Arch::Amd64, &[0x0c, 7, 8], &set_loc(address)).unwrap();
        rows.iter().map(|(row, _)| row.start.0).collect::<Vec<_>>()
    };
    assert_eq!(starts(START + 0x20), [0, 4, 0x20]);
    assert_eq!(starts(START + 4), [0, 4]);
    // Back, and in front of the function.
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
