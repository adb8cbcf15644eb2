//! Finds the return addresses of a function's calls, and of the system calls in which threads wait.

use std::ops::Range;

use cfipack_format::{Arch, Family};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};

/// Calls `visit` with the offset after every call in `code`, in ascending order. x86 code is decoded from its first
/// byte, where an instruction must start.
pub(super) fn each_return(arch: Arch, code: &[u8], mut visit: impl FnMut(u64)) {
    match arch.family() {
        Family::X86 => {
            let bits = u32::from(arch.pointer_size()) * 8;
            for instruction in Decoder::with_ip(bits, code, 0, DecoderOptions::NONE).iter() {
                let mnemonic = instruction.mnemonic();
                if matches!(mnemonic, Mnemonic::Call | Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int)
                {
                    visit(instruction.next_ip());
                }
            }
        }
        Family::Aarch64 => {
            for (&word, end) in code.as_chunks::<4>().0.iter().zip((4..).step_by(4)) {
                if is_arm64_call(u32::from_le_bytes(word)) {
                    visit(end);
                }
            }
        }
        Family::S390x | Family::Riscv => {}
    }
}

/// Returns whether a word is `bl`, `blr`, a `blra…` that authenticates the address first, or `svc` (Arm ARM, C4.1).
fn is_arm64_call(word: u32) -> bool {
    word & 0xfc00_0000 == 0x9400_0000
        || word & 0xfeff_f000 == 0xd63f_0000
        || word & 0xffe0_001f == 0xd400_0001
}

/// Returns whether a call returns into a range or to its end. Unwinding from there looks up the call's last byte.
pub(super) fn holds_call(returns: &[u64], range: &Range<u64>) -> bool {
    let after = returns.partition_point(|&address| address <= range.start);
    returns.get(after).is_some_and(|&address| address <= range.end)
}
