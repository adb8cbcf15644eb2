//! Decodes AArch64 instructions into effects, with yaxpeax-arm.
//!
//! We chose yaxpeax-arm because it decodes all of A64 except SVE and SME into typed operands, does not allocate, and
//! is Rust without `unsafe`. An instruction that it does not know makes every register unknown.

mod effect;

use cfipack_format::{Address, Arch, Endian};
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand};

use self::effect::{Effect, general};
use crate::instruction::{Condition, Decoded, Flow, Index, Op, Special};

const LINK: Index = 30;

/// The registers x0 to x18 and x30, as bits. A call may change them (AAPCS64).
const CALL_CHANGES: u64 = 0x4007_ffff;

/// Decodes four bytes, which are little-endian on every AArch64.
pub(crate) fn disassemble(bytes: [u8; 4]) -> Option<Instruction> {
    InstDecoder::default().decode(&mut U8Reader::new(&bytes)).ok()
}

/// Returns whether an instruction marks a target of indirect jumps: `bti j` or `bti jc`.
pub(crate) fn is_jump_target(bytes: [u8; 4]) -> bool {
    let Some(Instruction { opcode: Opcode::HINT, operands, .. }) = disassemble(bytes) else { return false };
    matches!(operands, [Operand::ControlReg(4), Operand::Immediate(4 | 6), ..])
}

/// Returns the target of a direct branch or call at `pc`.
pub(crate) fn near_target(instruction: &Instruction, pc: Address) -> Option<Address> {
    let is_branch = matches!(
        instruction.opcode,
        Opcode::B
            | Opcode::BL
            | Opcode::Bcc(_)
            | Opcode::BCcc(_)
            | Opcode::CBZ
            | Opcode::CBNZ
            | Opcode::TBZ
            | Opcode::TBNZ
    );
    if !is_branch {
        return None;
    }
    instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => Some(pc.offset(*offset)),
        _ => None,
    })
}

/// Returns whether an instruction is a barrier that compilers put after returns and indirect jumps, against speculation:
/// `dsb sy`, `isb` or `sb`.
pub(crate) fn is_barrier(bytes: [u8; 4]) -> bool {
    matches!(u32::from_le_bytes(bytes), 0xd503_3f9f | 0xd503_3fdf | 0xd503_30ff)
}

/// Decodes the four bytes at `pc`, and appends the known effects to `ops`.
pub(crate) fn decode(
    bytes: [u8; 4],
    (arch, pc): (Arch, Address),
    is_relocated: bool,
    ops: &mut Vec<Op>,
) -> Decoded {
    let word = u32::from_le_bytes(bytes);
    // Padding is `nop` or zeros.
    let is_padding = word == 0xd503_201f || word == 0;
    let Some(instruction) = disassemble(bytes) else {
        let flow = if word == 0 { Flow::Stop } else { Flow::Next };
        let copied = copied(word);
        let writes = if word == 0 { 0 } else { copied.unwrap_or(u64::MAX) };
        return Decoded {
            len: 4,
            flow,
            is_padding,
            is_unknown: word != 0 && copied.is_none(),
            sets_flags: true,
            special: Special::No,
            writes,
        };
    };
    let known = near_target(&instruction, pc).filter(|_| !is_relocated);
    let flow = flow(&instruction, known);
    let mut effect = Effect { ops, writes: 0, is_big: arch.endian() == Endian::Big };
    match flow {
        Flow::Call(_) => effect.writes = CALL_CHANGES,
        Flow::Stop => {}
        _ => effect.add_instruction(&instruction, pc, is_relocated),
    }
    let writes = effect.writes & !(1 << 63);
    let sets_flags = sets_flags(&instruction);
    let special = special(&instruction);
    Decoded { len: 4, flow, is_padding, is_unknown: false, sets_flags, special, writes }
}

/// Returns the registers that an instruction of FEAT_MOPS changes, as bits: `cpyp`, `cpym`, `cpye` and their variants copy
/// memory and change three registers, `setp`, `setm`, `sete` set memory and change two. yaxpeax-arm does not know them.
/// Source: Arm Architecture Reference Manual, "Memory Copy and Memory Set instructions".
fn copied(word: u32) -> Option<u64> {
    let (is_set, stage) = (word >> 22 & 3 == 3, word >> 14 & 3);
    let places: &[u32] = if is_set { &[0, 5] } else { &[0, 5, 16] };
    let registers = places.iter().fold(0, |bits, place| bits | 1_u64 << (word >> place & 31));
    let is_mops = word & 0xfb20_0c00 == 0x1900_0400 && !(is_set && stage == 3);
    (is_mops && registers & 1 << 31 == 0).then_some(registers)
}

fn sets_flags(instruction: &Instruction) -> bool {
    use Opcode as O;
    matches!(
        instruction.opcode,
        O::ADDS
            | O::SUBS
            | O::ANDS
            | O::BICS
            | O::ADCS
            | O::SBCS
            | O::CCMP
            | O::CCMN
            | O::FCMP
            | O::FCMPE
            | O::FCCMP
            | O::FCCMPE
            | O::MSR
            | O::RMIF
            | O::SETF8
            | O::SETF16
            | O::SUBPS
    )
}

fn flow(instruction: &Instruction, target: Option<Address>) -> Flow {
    use Opcode as O;
    let register = || match instruction.operands[0] {
        Operand::Register(_, number) | Operand::RegisterOrSP(_, number) => number as Index,
        _ => LINK,
    };
    match instruction.opcode {
        O::B => Flow::Jump(target),
        O::BL => Flow::Call(target),
        // The conditions `al` and `nv` always branch.
        O::Bcc(14 | 15) | O::BCcc(14 | 15) => Flow::Jump(target),
        O::Bcc(code) | O::BCcc(code) => Flow::Branch(target, condition(code)),
        O::CBZ | O::CBNZ | O::TBZ | O::TBNZ => Flow::Branch(target, Condition::Other),
        O::BR | O::BRAA | O::BRAAZ | O::BRAB | O::BRABZ => Flow::JumpRegister(register()),
        O::BLR | O::BLRAA | O::BLRAAZ | O::BLRAB | O::BLRABZ => Flow::Call(None),
        O::RET if register() == LINK => Flow::Return,
        O::RET => Flow::JumpRegister(register()),
        O::RETAA | O::RETAB | O::RETAASPPC | O::RETABSPPC | O::RETAASPPCR | O::RETABSPPCR => Flow::Return,
        O::ERET | O::ERETAA | O::ERETAB | O::DRPS => Flow::Stop,
        O::BRK | O::HLT | O::UDF | O::Invalid => Flow::Stop,
        _ => Flow::Next,
    }
}

fn special(instruction: &Instruction) -> Special {
    use Opcode as O;
    match instruction.opcode {
        O::SVC | O::HVC | O::SMC => Special::SystemCall,
        O::PACIBSP => Special::SigningByB,
        O::PACIAZ | O::PACIBZ => Special::OtherSigning,
        O::PACIA | O::PACIB if general(&instruction.operands[0]) == Some(LINK) => Special::OtherSigning,
        _ => Special::No,
    }
}

fn condition(code: u8) -> Condition {
    match code {
        0 => Condition::Equal,
        1 => Condition::NotEqual,
        // The conditions hs and lo, then hi and ls.
        2 | 3 => Condition::AtLeast,
        8 | 9 => Condition::Above,
        _ => Condition::Other,
    }
}
