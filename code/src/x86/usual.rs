//! A fast answer for common instructions: the operands that they write. Iced's general answer takes longer than
//! decoding.

use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind, Register};

/// The registers that an instruction writes, and whether it writes its first operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    /// The general registers, as bits by the machine's numbers. A register is set if any part of it is written.
    pub registers: u64,
    /// True if the instruction always writes its first operand.
    pub first: bool,
}

impl Written {
    /// The instruction writes nothing.
    pub const NOTHING: Self = Self { registers: 0, first: false };
}

const RSP: u64 = 1 << 4;

/// Returns the registers and operands that a common instruction writes, or `None` for other instructions.
pub(super) fn writes_if_common(instruction: &Instruction) -> Option<Written> {
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
        // This is `setcc` or `cmovcc`. The instruction `cmpccxadd` has three operands.
        _ if instruction.condition_code() != ConditionCode::None && instruction.op_count() <= 2 => {
            first(instruction)
        }
        // These put an index into ecx.
        M::Pcmpestri | M::Pcmpistri | M::Pcmpestri64 | M::Vpcmpestri | M::Vpcmpistri | M::Vpcmpestri64 => {
            None
        }
        // This writes only vector registers. Whether the first operand is written matters only for memory.
        _ if kind == OpKind::Register && instruction.op0_register().is_vector_register() => {
            Some(Written::NOTHING)
        }
        _ => None,
    }
}

/// Returns the registers for an instruction that always writes its first operand and nothing else.
fn first(instruction: &Instruction) -> Option<Written> {
    let registers = match instruction.op0_kind() {
        OpKind::Register => bit(instruction.op0_register()),
        OpKind::Memory => 0,
        // String instructions also move pointers.
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

    use crate::x86::{X86Decoder, decode};

    /// ModRM bytes: registers, and memory with a displacement, for each number in the opcode. Immediate operands
    /// follow.
    const OPERANDS: [u8; 24] = [
        0x00, 0x45, 0x48, 0x4c, 0x50, 0x58, 0x60, 0x68, 0x70, 0x78, 0xc0, 0xc1, 0xc8, 0xca, 0xd0, 0xd3, 0xd8,
        0xdc, 0xe0, 0xe5, 0xe8, 0xf0, 0xf8, 0xff,
    ];

    /// Returns all byte sequences that can precede an opcode: prefixes that select an instruction, with all opcode
    /// maps.
    fn starts() -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for prefixes in
            [&[][..], &[0x66], &[0xf2], &[0xf3], &[0x48], &[0x66, 0x48], &[0xf3, 0x48], &[0xf2, 0x4c]]
        {
            for map in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
                all.push([prefixes, map].concat());
            }
        }
        for map in 1..=3 {
            for last in 0..16 {
                // VEX with three bytes: W, no second source or xmm0, the vector length and the implied prefix.
                all.push(vec![0xc4, 0xe0 | map, (last & 8) << 4 | 0x78 | (last & 7)]);
                all.push(vec![0xc4, 0xe0 | map, (last & 8) << 4 | 0x70 | (last & 7)]);
                // EVEX.
                all.push(vec![0x62, 0xf0 | map, (last & 8) << 4 | 0x7c | (last & 3), 0x08 | (last & 4) << 3]);
                all.push(vec![0x62, 0xf0 | map, (last & 8) << 4 | 0x74 | (last & 3), 0x09 | (last & 4) << 3]);
            }
        }
        all
    }

    #[test]
    fn what_is_known_of_usual_instructions_is_what_iced_knows() {
        for arch in [Arch::Amd64, Arch::I386] {
            let mut iced = X86Decoder::new(arch, &[], Address(0));
            let mut usual = 0;
            for start in starts() {
                for opcode in 0..=255 {
                    for operands in OPERANDS {
                        let code = [&start[..], &[opcode, operands, 0x24, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
                        let instruction = decode(arch, &code, Address(0x1000));
                        let own = super::writes_if_common(&instruction).filter(|_| !instruction.is_invalid());
                        let Some(own) = own else { continue };
                        usual += 1;
                        let theirs = iced.written(&instruction);
                        assert_eq!(own.registers, theirs.registers, "{code:x?} {:?}", instruction.code());
                        if instruction.op0_kind() == OpKind::Memory {
                            assert_eq!(own.first, theirs.first, "{code:x?} {:?}", instruction.code());
                        }
                    }
                }
            }
            assert!(usual > 100_000, "{usual}");
        }
    }
}
