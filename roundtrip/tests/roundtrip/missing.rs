//! Functions that a table lacks: the caller gives the reason, and the report counts those without a reason.

use cfipack_cfi::Functions;
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Builder, Options as TableOptions};
use cfipack_format::{Address, Reason, SectionOffset, Unsupported};
use cfipack_roundtrip::{
    MissingFunction, Options, Report, Table, most_frequent_first, verify, verify_with_reasons,
};

use crate::made::{self, Cfi, Made, SP1, TABLE_ADDRESS};

/// Returns the encoder's reason. The judge does not know it.
pub fn of_the_encoder(missing: &MissingFunction<'_>) -> Option<Unsupported> {
    let section = &missing.section;
    let after = SectionOffset(missing.fde.0 + 1);
    let mut functions = Functions::between(section, missing.fde, after);
    let function = functions.next().unwrap().unwrap();
    Builder::new(section.arch, TableOptions::default()).unwrap().push(&function).err()
}

/// Verifies a table with the second of four functions. Each function has four bytes.
fn report(reason: impl FnMut(&MissingFunction<'_>) -> Option<Unsupported>) -> Report {
    let cfi = cfi();
    let bytes = table(&cfi);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    verify_with_reasons(&[cfi.section()], &Table::new(&sections), &Options::default(), reason)
}

fn cfi() -> Cfi {
    let (mut cfi, cie) = Cfi::amd64();
    // The FDEs are not in order of address, but the caller is asked in this order.
    for start in [0x1008, 0x1000, 0x1004, 0x100c] {
        cfi.fde(cie, start, 4, &[]);
    }
    cfi
}

fn table(cfi: &Cfi) -> Vec<u8> {
    made::table(cfi.section().arch, &[Made::new(0x1004, 4, &[(0, SP1, &[8])])])
}

fn unsupported(function: Address) -> Unsupported {
    Unsupported { function: function.into(), offset: 1, reason: Reason::CfaExpression }
}

#[test]
fn the_caller_is_asked_once_for_each_in_order_of_address() {
    let mut asked = Vec::new();
    let found = report(|missing| {
        asked.push((missing.start.0, missing.fde.0, missing.section.bytes.len()));
        Some(unsupported(missing.start))
    });
    // The CIE has 22 bytes, each FDE 25.
    let expected = [(0x1000, 22 + 25), (0x1008, 22), (0x100c, 22 + 3 * 25)];
    let expected = expected.map(|(start, fde)| (start, fde, 22 + 4 * 25));
    assert_eq!(asked, expected);
    assert_eq!((found.equal, found.missing, found.unexplained), (1, 3, 0));
    assert_eq!(most_frequent_first(&found.reasons), [("cfa-expression", 3)]);
    assert_eq!(found.unverified[1].function, Some(Address(0x1008)));
    assert_eq!(found.unverified[1].pc, Some(Address(0x1009)));
    assert_eq!(found.unverified[1].words, Reason::CfaExpression.to_string());
}

/// A reason explains only the function that it is for. Here, three reasons explain two of three missing functions.
#[test]
fn a_reason_for_another_function_is_none() {
    let omitted = [0x1000, 0x1004, 0x100c].map(|start| unsupported(Address(start)));
    let found = report(|missing| omitted.iter().find(|it| it.function == missing.start.into()).copied());
    assert_eq!((found.missing, found.unexplained), (3, 1));
    assert_eq!(most_frequent_first(&found.reasons), [("cfa-expression", 2), ("not-in-the-table", 1)]);
    assert_eq!(found.unverified[1].function, Some(Address(0x1008)));
    assert_eq!(found.unverified[1].words, "the function could be in the table and is not");
}

#[test]
fn without_a_caller_who_knows() {
    let cfi = cfi();
    let bytes = table(&cfi);
    let sections = [Section::parse(&bytes, TABLE_ADDRESS).unwrap()];
    let found = verify(&[cfi.section()], &Table::new(&sections), &Options::default());
    assert_eq!((found.missing, found.unexplained), (3, 3));
    assert_eq!(most_frequent_first(&found.reasons), [("not-in-the-table", 3)]);
    assert_eq!(found.unverified[0].words, "the function is not in the table");
}
