//! The registers that an encoding can restore.

use bitflags::bitflags;

use crate::{Arch, Register};

/// Returns x86's six registers, or `None` on other architectures. A register's number in an encoding is its
/// index plus 1.
///
/// x86-64: rbx, r12, r13, r14, r15, rbp. i386: ebx, ecx, edx, edi, esi, ebp.
pub const fn callee_saved(arch: Arch) -> Option<[Register; 6]> {
    match arch {
        Arch::Amd64 => {
            Some([Register(3), Register(12), Register(13), Register(14), Register(15), Register(6)])
        }
        Arch::I386 => Some([Register(3), Register(1), Register(2), Register(7), Register(6), Register(4)]),
        Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => None,
    }
}

bitflags! {
    /// arm64's pairs of callee-saved registers. The D pairs are bits 8 to 11, and bits 5 to 7 are unused.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Pairs: u32 {
        /// x19 and x20.
        const X19_X20 = 0x001;
        /// x21 and x22.
        const X21_X22 = 0x002;
        /// x23 and x24.
        const X23_X24 = 0x004;
        /// x25 and x26.
        const X25_X26 = 0x008;
        /// x27 and x28.
        const X27_X28 = 0x010;
        /// d8 and d9.
        const D8_D9 = 0x100;
        /// d10 and d11.
        const D10_D11 = 0x200;
        /// d12 and d13.
        const D12_D13 = 0x400;
        /// d14 and d15.
        const D14_D15 = 0x800;
    }
}

/// The pairs in the order of their places in memory, from the highest address down, each with the DWARF number
/// of its first register. The first register of a pair is at the higher address, and the second register is 8
/// bytes below.
pub const PAIRS: [(Pairs, Register); 9] = [
    (Pairs::X19_X20, Register(19)),
    (Pairs::X21_X22, Register(21)),
    (Pairs::X23_X24, Register(23)),
    (Pairs::X25_X26, Register(25)),
    (Pairs::X27_X28, Register(27)),
    (Pairs::D8_D9, Register(72)),
    (Pairs::D10_D11, Register(74)),
    (Pairs::D12_D13, Register(76)),
    (Pairs::D14_D15, Register(78)),
];
