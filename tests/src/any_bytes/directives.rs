//! Makes any directives. They are refused, or CFI and tables are made of them without a panic and can be read back.
//! Wherever gimli can evaluate the CFI, the table has the same rows.

use cfipack_assembler::{Assembly, CompactOptions, Dialect, Directives, Encodings, EscapeOperand, Target};
use cfipack_cfi::{Functions, PointerEncoding};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::compact_unwind;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::{Address, Arch, Key, Register};
use cfipack_roundtrip::{Table, verify};

use crate::ARCHES;

const EH_FRAME: Address = Address(0x1_0000);
const SFRAME: Address = Address(0x2_0000);

/// Calls directives as the input says.
pub fn directives(input: &[u8]) {
    let mut bytes = input.iter().copied();
    let choice = bytes.next().unwrap_or(0);
    let arch = ARCHES[usize::from(choice & 3)];
    let dialect = if choice & 4 == 0 { Dialect::Gas } else { Dialect::Llvm };
    let layout = if choice & 8 == 0 { Layout::Small } else { Layout::Gnu };
    let mut assembly = Assembly::new(arch).with_dialect(dialect);
    for number in 0..1 + u64::from(choice >> 4 & 3) {
        let directives = calls(arch, &mut bytes);
        assert_eq!(directives.errors().first().copied(), directives.check().err());
        let before = assembly.len();
        let pushed = assembly.push(Key(number), &directives);
        assert_eq!(assembly.len(), before + usize::from(pushed.is_ok()));
    }
    let (Ok(eh_frame), Ok(_)) = (assembly.eh_frame(), assembly.debug_frame()) else { return };
    let _compact = assembly.compact_unwind(
        CompactOptions::new().with_encodings(if choice & 64 == 0 {
            Encodings::Checked
        } else {
            Encodings::LlvmMc
        }),
        |_| None,
        |_| compact_unwind::RelocationTarget::Symbol { number: 0 },
    );
    for function in Functions::keyed(&eh_frame.section(), |_| Some(Key(0))) {
        let _ = Directives::from_cfi(&function.expect("what was written can be read"));
    }
    let address_of = |target| match target {
        Target::Function(Key(number)) => Address(0x10_0000 + 0x1_0000 * number),
        _ => Address(0x3_0000),
    };
    let Ok(placed) = eh_frame.to_vec(EH_FRAME, address_of) else { return };
    let cfi = cfipack_cfi::Section::new(eh_frame.kind(), &placed, EH_FRAME, arch);
    let sframe = assembly.sframe(Options::new().with_layout(layout)).expect("the architecture has it");
    let mut table = vec![0; sframe.section.len()];
    sframe.section.write(&mut table, SFRAME, |key| address_of(Target::Function(key))).unwrap();
    let table = Section::parse(&table, SFRAME).expect("what was written can be read");
    table.validate().expect("what was written is valid");
    let report = verify(&[cfi], &Table::new(&[table]), &cfipack_roundtrip::Options::default());
    if report.unverified.iter().all(|function| function.function.is_some()) {
        assert_eq!(report.pcs_different, 0, "{:?}", report.differences.first());
    }
}

/// Returns calls that the bytes choose.
fn calls(arch: Arch, bytes: &mut impl Iterator<Item = u8>) -> Directives {
    let mut byte = || bytes.next().unwrap_or(0);
    let directives = Directives::new(arch, u64::from(byte()) * 4);
    let mut directives = directives.with_simple(byte() & 7 == 0);
    let mut at = 0;
    for _ in 0..byte() & 63 {
        let register = Register(u16::from(byte()));
        let offset = i64::from(byte() as i8) * if byte() & 7 == 0 { 1 } else { 8 };
        let kind = byte();
        match kind % 25 {
            0 | 1 => {
                at += u64::from(byte() & 7);
                directives.at(at)
            }
            2 => directives.at_aligned(at),
            3 => directives.at(u64::from(byte())),
            4 => directives.def_cfa(register, offset),
            5 => directives.def_cfa_offset(offset),
            6 => directives.adjust_cfa_offset(offset),
            7 => directives.def_cfa_register(register),
            8 => directives.offset(register, offset),
            9 => directives.rel_offset(register, offset),
            10 => directives.val_offset(register, offset),
            11 => directives.register_in(register, Register(u16::from(byte()))),
            12 => directives.restore(register),
            13 => directives.undefined(register),
            14 => directives.same_value(register),
            15 => directives.remember_state(),
            16 => directives.restore_state(),
            17 => directives.window_save(),
            18 => directives.negate_ra_state(),
            19 => directives.escape(&[byte(), byte(), byte()][..usize::from(byte() & 3)]),
            20 => directives.escape_operands(&[EscapeOperand::Byte(byte()), EscapeOperand::Sleb128(offset)]),
            21 => directives.signal_frame(),
            22 => directives.return_column(register),
            23 => {
                directives.personality(PointerEncoding(byte()), Key(1)).lsda(PointerEncoding(byte()), Key(2))
            }
            _ => directives.label().b_key_frame(),
        };
    }
    directives
}
