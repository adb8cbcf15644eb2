//! Finds calls and system calls. A thread can wait at either, so encodings have to be true there.

use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Family};

/// Returns whether calls can be told from other instructions: always on arm64, and on x86 with the feature
/// `iced-x86`.
pub(super) const fn can_be_found(arch: Arch) -> bool {
    match arch.family() {
        Family::X86 => cfg!(feature = "iced-x86"),
        Family::Aarch64 => true,
        Family::S390x | Family::Riscv => false,
    }
}

/// A reason why a range of code may contain a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// A call or a system call at this offset from the function's start.
    Call(u32),
    /// Bytes that are not code, or the end of the given code.
    Unreadable(u32),
}

/// Finds the first call that starts in a range of a function. The range is in bytes from the function's start, and an
/// instruction must start at `from`.
pub(super) fn find_call(arch: Arch, code: &[u8], from: u32, to: u32) -> Option<Found> {
    let Some(range) = code.get(from.to_usize()..to.to_usize()) else {
        return Some(Found::Unreadable(from));
    };
    match arch.family() {
        Family::X86 => in_x86(arch, range, from),
        Family::Aarch64 => in_arm64(range, from),
        Family::S390x | Family::Riscv => Some(Found::Unreadable(from)),
    }
}

fn in_arm64(range: &[u8], from: u32) -> Option<Found> {
    let mut words = range.chunks_exact(4);
    for (word, at) in words.by_ref().zip((from..).step_by(4)) {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let bl = word >> 26 == 0b10_0101;
        // BLR, BLRAAZ, BLRABZ, BLRAA, BLRAB.
        let blr = word & 0xfeff_f000 == 0xd63f_0000;
        let svc = word & 0xffe0_001f == 0xd400_0001;
        if bl || blr || svc {
            return Some(Found::Call(at));
        }
    }
    (!words.remainder().is_empty()).then_some(Found::Unreadable(from))
}

#[cfg(feature = "iced-x86")]
fn in_x86(arch: Arch, range: &[u8], from: u32) -> Option<Found> {
    use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic};

    // These are the opcodes E8, FF /2 and /3, 9A (32-bit mode only), 0F 05, 0F 34 and CD. Most prologues contain none
    // of these bytes.
    let is_possible = range
        .iter()
        .fold(false, |found, byte| found | matches!(*byte, 0xe8 | 0xff | 0x9a | 0x05 | 0x34 | 0xcd));
    if !is_possible {
        return None;
    }
    let bits = u32::from(arch.pointer_size()) * 8;
    let mut decoder = Decoder::new(bits, range, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = from + decoder.position() as u32;
        decoder.decode_out(&mut instruction);
        match instruction.mnemonic() {
            Mnemonic::Call | Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int => {
                return Some(Found::Call(at));
            }
            // If a row starts inside an instruction, then the instruction reaches beyond the range.
            _ if decoder.last_error() != DecoderError::None => return Some(Found::Unreadable(at)),
            _ => {}
        }
    }
    None
}

#[cfg(not(feature = "iced-x86"))]
fn in_x86(_arch: Arch, _range: &[u8], from: u32) -> Option<Found> {
    Some(Found::Unreadable(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as aarch64-linux-gnu-as 2.47 assembles them.
    #[test]
    fn arm64() {
        let find = |word: u32| find_call(Arch::Aarch64, &word.to_le_bytes(), 0, 4);
        // bl ., blr x3, blraaz x3, blrabz x3, blraa x3, x4, blrab x3, sp
        for call in [0x9400_0000, 0xd63f_0060, 0xd63f_087f, 0xd63f_0c7f, 0xd73f_0864, 0xd73f_0c7f] {
            assert_eq!(find(call), Some(Found::Call(0)), "{call:08x}");
        }
        // svc #0x80
        assert_eq!(find(0xd400_1001), Some(Found::Call(0)));
        // b ., br x3, ret, ret x3, braa x3, x4, nop
        for other in [0x1400_0000, 0xd61f_0060, 0xd65f_03c0, 0xd65f_0060, 0xd71f_0864, 0xd503_201f] {
            assert_eq!(find(other), None, "{other:08x}");
        }
        let code = [0x1f, 0x20, 0x03, 0xd5, 0, 0, 0, 0x94];
        assert_eq!(super::find_call(Arch::Aarch64, &code, 0, 8), Some(Found::Call(4)));
        assert_eq!(super::find_call(Arch::Aarch64, &code, 0, 12), Some(Found::Unreadable(0)));
        assert_eq!(super::find_call(Arch::Aarch64, &code, 0, 2), Some(Found::Unreadable(0)));
    }

    #[cfg(feature = "iced-x86")]
    #[test]
    fn x86() {
        // mov eax, ebp; call rax
        let code = [0x89, 0xe8, 0xff, 0xd0];
        assert_eq!(find_call(Arch::Amd64, &code, 0, 2), None);
        assert_eq!(find_call(Arch::Amd64, &code, 0, 4), Some(Found::Call(2)));
        // syscall; sysenter; int 0x80; int3
        assert_eq!(find_call(Arch::Amd64, &[0x0f, 0x05], 0, 2), Some(Found::Call(0)));
        assert_eq!(find_call(Arch::I386, &[0x0f, 0x34], 0, 2), Some(Found::Call(0)));
        assert_eq!(find_call(Arch::I386, &[0xcd, 0x80], 0, 2), Some(Found::Call(0)));
        assert_eq!(find_call(Arch::Amd64, &[0xcc, 0x90], 0, 2), None);
        // jmp rax; call [rip + 0]; ff /7 is no instruction
        assert_eq!(find_call(Arch::Amd64, &[0xff, 0xe0], 0, 2), None);
        assert_eq!(find_call(Arch::Amd64, &[0xff, 0x15, 0, 0, 0, 0], 0, 6), Some(Found::Call(0)));
        assert_eq!(find_call(Arch::Amd64, &[0x90, 0xff, 0xff], 0, 3), Some(Found::Unreadable(1)));
        // A far call, in 32-bit mode.
        let far = [0x9a, 0, 0, 0, 0, 0, 0];
        assert_eq!(find_call(Arch::I386, &far, 0, 7), Some(Found::Call(0)));
        assert_eq!(find_call(Arch::Amd64, &far, 0, 7), Some(Found::Unreadable(0)));
    }
}
