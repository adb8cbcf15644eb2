//! What usual instructions write, without iced's general answer, which takes longer than decoding.

use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};

/// What an instruction writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    /// General registers by the bits of the machine's numbers, whichever part of them.
    pub registers: u64,
    /// True if it always writes its first operand.
    pub first: bool,
}

impl Written {
    /// Nothing.
    pub const NOTHING: Self = Self { registers: 0, first: false };
}

const RSP: u64 = 1 << 4;

/// None for an instruction that is not usual.
pub(super) fn written(instruction: &Instruction) -> Option<Written> {
    use Mnemonic as M;
    let kind = instruction.op0_kind();
    match instruction.mnemonic() {
        M::Cmp | M::Test | M::Nop | M::Endbr64 | M::Endbr32 => Some(Written::NOTHING),
        M::Jmp if matches!(kind, OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16) => {
            Some(Written::NOTHING)
        }
        _ if instruction.is_jcc_short_or_near() => Some(Written::NOTHING),
        M::Push => Some(Written { registers: RSP, first: false }),
        M::Pop if kind == OpKind::Register => {
            first(instruction).map(|written| Written { registers: written.registers | RSP, ..written })
        }
        M::Ret => Some(Written { registers: RSP, first: false }),
        M::Imul if instruction.op_count() == 1 => None,
        M::Mov
        | M::Lea
        | M::Movzx
        | M::Movsx
        | M::Movsxd
        | M::Add
        | M::Sub
        | M::And
        | M::Or
        | M::Xor
        | M::Adc
        | M::Sbb
        | M::Inc
        | M::Dec
        | M::Neg
        | M::Not
        | M::Imul
        | M::Shl
        | M::Shr
        | M::Sar
        | M::Movaps
        | M::Movups
        | M::Movapd
        | M::Movupd
        | M::Movdqa
        | M::Movdqu
        | M::Movss
        | M::Movsd
        | M::Movd
        | M::Movq
        | M::Movhps
        | M::Movlps
        | M::Movhpd
        | M::Movlpd
        | M::Vmovaps
        | M::Vmovups
        | M::Vmovdqa
        | M::Vmovdqu
        | M::Vmovss
        | M::Vmovsd
        | M::Vmovd
        | M::Vmovq => first(instruction),
        // `setcc` and `cmovcc`: a compare that adds has three operands.
        _ if instruction.condition_code() != ConditionCode::None && instruction.op_count() <= 2 => {
            first(instruction)
        }
        // These put an index into ecx.
        M::Pcmpestri | M::Pcmpistri | M::Pcmpestri64 | M::Vpcmpestri | M::Vpcmpistri | M::Vpcmpestri64 => {
            None
        }
        // Nothing but vector registers: whether the first operand is among what is written matters in memory alone.
        _ if kind == OpKind::Register && instruction.op0_register().is_vector_register() => {
            Some(Written::NOTHING)
        }
        _ => None,
    }
}

/// What an instruction writes that always writes its first operand, and nothing else.
fn first(instruction: &Instruction) -> Option<Written> {
    let registers = match instruction.op0_kind() {
        OpKind::Register => bit(instruction.op0_register()),
        OpKind::Memory => 0,
        // Strings, which move pointers on.
        _ => return None,
    };
    Some(Written { registers, first: true })
}

fn bit(register: Register) -> u64 {
    if register.is_gpr() { 1 << register.full_register().number() } else { 0 }
}

#[cfg(test)]
mod tests {
    use cfipack_format::{Address, Arch};
    use iced_x86::OpKind;

    use super::super::{X86Decoder, decode};

    /// Bytes without a pattern, but for opcodes and prefixes that are usual.
    fn bytes(seed: &mut u64) -> [u8; 16] {
        const OFTEN: [u8; 16] =
            [0x48, 0x0f, 0x66, 0xf2, 0xf3, 0x89, 0x8b, 0x81, 0x83, 0xc1, 0xff, 0xc5, 0xc4, 0x41, 0x3a, 0x38];
        std::array::from_fn(|index| {
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            let byte = (*seed >> 24) as u8;
            if index < 3 && byte & 1 == 1 { OFTEN[usize::from(byte >> 4)] } else { (*seed >> 40) as u8 }
        })
    }

    #[test]
    fn what_is_known_of_usual_instructions_is_what_iced_knows() {
        for arch in [Arch::Amd64, Arch::I386] {
            let mut iced = X86Decoder::new(arch, &[], Address(0));
            let (mut seed, mut usual) = (0x9e37_79b9_7f4a_7c15, 0);
            for _ in 0..400_000 {
                let code = bytes(&mut seed);
                let instruction = decode(arch, &code, Address(0x1000));
                let Some(own) = super::written(&instruction).filter(|_| !instruction.is_invalid()) else {
                    continue;
                };
                usual += 1;
                let theirs = iced.written(&instruction);
                assert_eq!(own.registers, theirs.registers, "{code:x?} {:?}", instruction.code());
                if instruction.op0_kind() == OpKind::Memory {
                    assert_eq!(own.first, theirs.first, "{code:x?} {:?}", instruction.code());
                }
            }
            assert!(usual > 100_000, "{usual}");
        }
    }
}
