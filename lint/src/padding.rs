//! Recognizes padding that linkers and assemblers put between functions.

use cfipack_format::{Arch, Family};

/// Returns whether all bytes are padding: instructions that do nothing, instructions that trap, or zeros.
pub fn is_padding(arch: Arch, bytes: &[u8]) -> bool {
    len(arch, bytes) == bytes.len()
}

/// Returns the number of bytes of padding at the start of `bytes`.
pub fn len(arch: Arch, bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(len) = first(arch, rest) {
        rest = &rest[len..];
    }
    bytes.len() - rest.len()
}

/// Returns whether the code in `bytes` can end after them: with a return or a jump, perhaps with padding after it, or with a
/// call and padding.
pub fn may_end(arch: Arch, bytes: &[u8]) -> bool {
    (0..=bytes.len()).any(|len| {
        let (code, padding) = bytes.split_at(bytes.len() - len);
        if !is_padding(arch, padding) {
            return false;
        }
        // Zeros can be the end of an instruction.
        let is_padded = padding.iter().any(|byte| *byte != 0);
        match arch.family() {
            Family::X86 => match code {
                [] => is_padded,
                [.., 0xc3 | 0xf4] | [.., 0xeb, _] | [.., 0xe9, _, _, _, _] => true,
                [.., 0x0f, 0x0b] | [.., 0xff, 0xe0..=0xe7 | 0x20..=0x27] => true,
                // jmp *N(%rax); jmp *N(%rip)
                [.., 0xff, 0x60..=0x67, _] | [.., 0xff, 0xa0..=0xa7 | 0x25, _, _, _, _] => true,
                [.., 0xe8, _, _, _, _] | [.., 0xff, 0xd0..=0xd7] => is_padded,
                _ => false,
            },
            Family::Aarch64 => {
                let Some(word) = code.last_chunk().map(|word| u32::from_le_bytes(*word)) else {
                    return code.is_empty();
                };
                // b; br, ret and their kinds with authentication; bl; blr
                word >> 26 == 0x05
                    || matches!(word & 0xffff_0000, 0xd61f_0000 | 0xd65f_0000 | 0xd71f_0000)
                    || len != 0 && (word >> 26 == 0x25 || word & 0xffff_fc1f == 0xd63f_0000)
            }
            Family::S390x | Family::Riscv => true,
        }
    })
}

/// Returns the length of the padding instruction at the start of `bytes`, or `None` if they start with anything else.
fn first(arch: Arch, bytes: &[u8]) -> Option<usize> {
    match arch.family() {
        Family::X86 => x86(bytes),
        Family::Aarch64 => {
            // Instructions are little-endian, even if data is big-endian.
            let word = u32::from_le_bytes(*bytes.first_chunk()?);
            // nop; udf #0; brk of any number
            let is_padding = word == 0xd503_201f || word == 0 || word & 0xffe0_001f == 0xd420_0000;
            is_padding.then_some(4)
        }
        // nopr of any register; nop of any address; jgnop; zeros
        Family::S390x => match bytes {
            [0x07, b, ..] if b >> 4 == 0 => Some(2),
            [0x47, b, _, _, ..] if b >> 4 == 0 => Some(4),
            [0xc0, 0x04, _, _, _, _, ..] => Some(6),
            [0, 0, ..] => Some(2),
            _ => None,
        },
        Family::Riscv => None,
    }
}

/// Recognizes a `nop` of one byte or `0f 1f` with its operand, with or without prefixes, `int3`, and a zero.
fn x86(bytes: &[u8]) -> Option<usize> {
    let prefixes = bytes.iter().take_while(|&&byte| byte == 0x66 || byte == 0x2e).count();
    let len = match &bytes[prefixes..] {
        [0x0f, 0x1f, modrm, rest @ ..] => 2 + x86_operand(*modrm, rest.first()),
        [0x90, ..] => 1,
        [0xcc | 0, ..] if prefixes == 0 => 1,
        _ => return None,
    };
    (prefixes + len <= bytes.len()).then_some(prefixes + len)
}

/// Returns the length of an operand: its ModRM byte, the SIB byte if it has one, and the displacement.
fn x86_operand(modrm: u8, sib: Option<&u8>) -> usize {
    let has_sib = modrm & 7 == 4 && modrm >> 6 != 3;
    let displacement = match modrm >> 6 {
        0 if modrm & 7 == 5 || has_sib && sib.is_some_and(|sib| sib & 7 == 5) => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    1 + usize::from(has_sib) + displacement
}

#[cfg(test)]
mod tests {
    use super::{Arch, is_padding, may_end};

    /// The sequences are from Intel's manual, "Recommended Multi-Byte Sequence of NOP Instruction", and from gas.
    #[test]
    fn nops_of_every_length() {
        let nops: [&[u8]; 11] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0],
            &[0x0f, 0x1f, 0x40, 0],
            &[0x0f, 0x1f, 0x44, 0, 0],
            &[0x66, 0x0f, 0x1f, 0x44, 0, 0],
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        ];
        for nop in nops {
            assert!(is_padding(Arch::Amd64, nop), "{nop:x?}");
            assert!(!is_padding(Arch::Amd64, &[nop, &[0xc3]].concat()));
            assert!(nop.len() < 3 || !is_padding(Arch::Amd64, &nop[..nop.len() - 1]), "{nop:x?}");
        }
        assert!(is_padding(Arch::Amd64, &[0xcc; 7]) && is_padding(Arch::Amd64, &[0; 3]));
        assert!(!is_padding(Arch::Amd64, &[0xf3, 0x90])); // pause
        assert!(is_padding(Arch::Aarch64, &[0x1f, 0x20, 0x03, 0xd5, 0, 0, 0, 0, 0x20, 0, 0x20, 0xd4]));
        assert!(!is_padding(Arch::Aarch64, &[0xc0, 0x03, 0x5f, 0xd6]));
        assert!(is_padding(Arch::S390x, &[0x07, 0x07, 0x47, 0, 0, 0, 0xc0, 0x04, 0, 0, 0, 0, 0, 0]));
        assert!(!is_padding(Arch::S390x, &[0x07, 0xfe])); // br %r14
    }

    #[test]
    fn code_ends_with_returns_jumps_and_padded_calls() {
        let may_end = |bytes: &[u8]| may_end(Arch::Amd64, bytes);
        // ret; jmp +0; jmp +0 (near); ud2; jmp *%rax; all with nops
        let ends: [&[u8]; 5] = [&[0xc3], &[0xeb, 0], &[0xe9, 1, 2, 3, 4], &[0x0f, 0x0b], &[0xff, 0xe0]];
        // jmp *(%rax); jmp *0x18(%rax); jmp *0x100(%rip)
        let in_memory: [&[u8]; 3] = [&[0xff, 0x20], &[0xff, 0x60, 0x18], &[0xff, 0x25, 0, 1, 0, 0]];
        for end in ends.into_iter().chain(in_memory) {
            assert!(may_end(end) && may_end(&[end, &[0x66, 0x90]].concat()), "{end:x?}");
        }
        // call +0x10 and nop, the second nop with zeros
        assert!(may_end(&[0xe8, 0x10, 1, 2, 3, 0x0f, 0x1f, 0x80, 0, 0, 0, 0]));
        assert!(may_end(&[0xe8, 0x10, 1, 2, 3, 0x90]) && !may_end(&[0xe8, 0x10, 1, 2, 3]));
        // mov $0, %eax; mov %rdi, %rsi
        assert!(!may_end(&[0xb8, 0, 0, 0, 0]) && !may_end(&[0x48, 0x89, 0xfe]));
        let arm = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            super::may_end(Arch::Aarch64, &bytes)
        };
        // ret; b +4; br x16; mov x29, sp; bl +4; bl +4 and nop
        assert!([0xd65f_03c0, 0x1400_0001, 0xd61f_0200].iter().all(|word| arm(&[*word])));
        assert!(!arm(&[0x9100_03fd]) && !arm(&[0x9400_0001]) && arm(&[0x9400_0001, 0xd503_201f]));
    }
}
