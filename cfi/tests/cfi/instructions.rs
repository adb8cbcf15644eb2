//! Decodes every call frame instruction from the bytes of DWARF 5, sections 6.4.2 and 7.24.

use cfipack_cfi::{Instruction, Instructions, Section, SectionKind};
use cfipack_format::Reason;
use cfipack_format::{Address, Arch, Register};

use crate::plain;

/// Decodes a function's first instruction, with factors 4 and -8. `check` also gets the number of bytes left.
fn decoded<T>(bytes: &[u8], check: impl FnOnce(Result<Instruction<'_>, Reason>, usize) -> T) -> T {
    let section = plain(&[], bytes);
    let section = Section::new(SectionKind::EhFrame, &section, Address(0), Arch::Amd64);
    let function = cfipack_cfi::Functions::new(&section).next().unwrap().unwrap();
    let mut instructions = Instructions::new(&function, function.instructions);
    let first = instructions.next().unwrap();
    check(first, instructions.rest().len())
}

#[test]
fn every_opcode() {
    use Instruction as I;
    let [r5, r300] = [5, 300].map(Register);
    let table: [(&[u8], I<'_>); 38] = [
        (&[0x43], I::Advance(12)),
        (&[0x7f], I::Advance(63 * 4)),
        (&[0x85, 2], I::Offset(r5, -16)),
        (&[0x85, 0x80, 0x01], I::Offset(r5, -1024)),
        (&[0xc5], I::Restore(r5)),
        (&[0x00], I::Nop),
        (&[0x01, 0x78, 0x56, 0x34, 0x12, 0xef, 0, 0, 0], I::SetLocation(Address(0xef_1234_5678))),
        (&[0x02, 0xff], I::Advance(255 * 4)),
        (&[0x03, 0x01, 0xff], I::Advance(0xff01 * 4)),
        (&[0x04, 0x01, 0x02, 0x03, 0xff], I::Advance(0xff03_0201 * 4)),
        (&[0x05, 0xac, 0x02, 2], I::Offset(r300, -16)),
        (&[0x06, 0xac, 0x02], I::Restore(r300)),
        (&[0x07, 5], I::Undefined(r5)),
        (&[0x08, 5], I::SameValue(r5)),
        (&[0x09, 5, 0xac, 0x02], I::Register(r5, r300)),
        (&[0x0a], I::RememberState),
        (&[0x0b], I::RestoreState),
        // `DW_CFA_def_cfa` and `DW_CFA_def_cfa_offset` have offsets in bytes, without a factor.
        (&[0x0c, 5, 0xff, 0x01], I::DefCfa(r5, 255)),
        (&[0x0d, 5], I::DefCfaRegister(r5)),
        (&[0x0e, 0x7f], I::DefCfaOffset(127)),
        (&[0x0f, 2, 0x77, 8], I::DefCfaExpression(&[0x77, 8])),
        (&[0x10, 5, 2, 0x77, 8], I::Expression(r5, &[0x77, 8])),
        (&[0x11, 5, 0x7e], I::Offset(r5, 16)),
        (&[0x11, 5, 2], I::Offset(r5, -16)),
        (&[0x12, 5, 0x7e], I::DefCfa(r5, 16)),
        (&[0x13, 0x7e], I::DefCfaOffset(16)),
        (&[0x14, 5, 0x7e], I::ValOffset(r5, -126 * 8)),
        (&[0x15, 5, 0x7e], I::ValOffset(r5, 16)),
        (&[0x15, 5, 2], I::ValOffset(r5, -16)),
        (&[0x16, 5, 2, 0x77, 8], I::ValExpression(r5, &[0x77, 8])),
        // DW_CFA_MIPS_advance_loc8
        (&[0x1d, 1, 0, 0, 0, 2, 0, 0, 0], I::Advance(0x2_0000_0001 * 4)),
        (&[0x2d], I::NegateRaState),
        (&[0x2e, 0x90, 0x01], I::ArgsSize(0x90)),
        // DW_CFA_GNU_negative_offset_extended: its offset is subtracted (LSB 5.0, 10.5.2).
        (&[0x2f, 5, 2], I::Offset(r5, 16)),
        (&[0x2f, 0xac, 0x02, 2], I::Offset(r300, 16)),
        (&[0x40], I::Advance(0)),
        (&[0xbf, 0], I::Offset(Register(63), 0)),
        (&[0xff], I::Restore(Register(63))),
    ];
    for (bytes, expected) in table {
        // The bytes after an instruction do not belong to it.
        let longer = [bytes, &[0x0a; 3]].concat();
        decoded(&longer, |instruction, left| {
            assert_eq!((instruction, left), (Ok(expected), 3), "{bytes:02x?}");
        });
        for len in 1..bytes.len() {
            decoded(&bytes[..len], |instruction, _| {
                assert_eq!(instruction, Err(Reason::InstructionMalformed(bytes[0])), "{bytes:02x?}");
            });
        }
    }
}

#[test]
fn opcodes_that_are_not_assigned() {
    for opcode in (0x17..0x40).filter(|opcode| !matches!(opcode, 0x1d | 0x2d | 0x2e | 0x2f)) {
        decoded(&[opcode, 0, 0, 0], |instruction, _| {
            assert_eq!(instruction, Err(Reason::InstructionUnknown(opcode)));
        });
    }
}
