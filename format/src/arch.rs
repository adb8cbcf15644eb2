//! Architectures, and the registers that unwinding needs.

use crate::Endian;

/// A register. The number is the DWARF number in the architecture's psABI, or on i386 the number in Mach-O's
/// `__eh_frame`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register(pub u16);

/// An architecture that cfipack supports.
///
/// The enumeration is exhaustive on purpose. A new architecture in a `_` arm would silently get the answer of
/// another architecture. Facts about architectures are methods of this type. Code that decides by itself
/// matches every architecture, or every [`Family`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arch {
    /// x86-64, little endian.
    Amd64,
    /// i386: Mach-O compact unwind only.
    I386,
    /// AArch64, little endian, including Apple's arm64.
    Aarch64,
    /// AArch64, big endian.
    Aarch64Be,
    /// arm64_32 (watchOS): AArch64 with 4-byte pointers; Mach-O compact unwind only.
    Arm64_32,
    /// s390x (64-bit z/Architecture), big endian.
    S390x,
    /// riscv64 (RV64), little endian: only call frame information, because neither compact format has an ABI
    /// for it.
    Riscv64,
}

/// Architectures with the same instruction set. They may differ in byte order and width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// x86-64 and i386.
    X86,
    /// AArch64 and arm64_32.
    Aarch64,
    /// s390x.
    S390x,
    /// RISC-V.
    Riscv,
}

/// The two words that a frame pointer points to: the offsets of both from the address in the frame pointer,
/// in bytes. See [`Arch::frame_record`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRecord {
    /// The offset of the caller's frame pointer.
    pub frame_pointer: u64,
    /// The offset of the return address.
    pub return_address: u64,
    /// The size of both words together.
    pub size: u64,
    /// True if the two words are at the top of the frame, so that their end is the CFA. Otherwise they may lie
    /// anywhere in the frame.
    pub ends_frame: bool,
}

impl Arch {
    /// Every architecture.
    pub const ALL: [Self; 7] =
        [Self::Amd64, Self::I386, Self::Aarch64, Self::Aarch64Be, Self::Arm64_32, Self::S390x, Self::Riscv64];

    /// Returns the instruction set.
    #[inline]
    pub const fn family(self) -> Family {
        match self {
            Self::Amd64 | Self::I386 => Family::X86,
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 => Family::Aarch64,
            Self::S390x => Family::S390x,
            Self::Riscv64 => Family::Riscv,
        }
    }

    /// Returns the names in targets and options. The usual name comes first.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Amd64 => &["x86_64", "x86-64", "amd64"],
            Self::I386 => &["i386", "i686"],
            Self::Aarch64 => &["aarch64", "arm64"],
            Self::Aarch64Be => &["aarch64_be"],
            Self::Arm64_32 => &["arm64_32"],
            Self::S390x => &["s390x"],
            Self::Riscv64 => &["riscv64"],
        }
    }

    /// Returns the architecture with this [name](Self::names).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.names().contains(&name))
    }

    /// Returns the byte order of the architecture's files.
    pub const fn endian(self) -> Endian {
        match self {
            Self::Amd64 | Self::I386 | Self::Aarch64 | Self::Arm64_32 | Self::Riscv64 => Endian::Little,
            Self::Aarch64Be | Self::S390x => Endian::Big,
        }
    }

    /// Returns the size of a pointer in bytes.
    pub const fn pointer_size(self) -> u8 {
        match self {
            Self::I386 | Self::Arm64_32 => 4,
            Self::Amd64 | Self::Aarch64 | Self::Aarch64Be | Self::S390x | Self::Riscv64 => 8,
        }
    }

    /// Returns the stack pointer: rsp is 7, esp 5 (in Mach-O's `__eh_frame`; the psABI has 4), sp 31, r15 15,
    /// RISC-V's sp 2.
    pub const fn stack_pointer(self) -> Register {
        Register(match self {
            Self::Amd64 => 7,
            Self::I386 => 5,
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 => 31,
            Self::S390x => 15,
            Self::Riscv64 => 2,
        })
    }

    /// Returns the frame pointer: rbp is 6, ebp 4 (in Mach-O's `__eh_frame`; the psABI has 5), x29 29, r11 11,
    /// RISC-V's s0 8.
    pub const fn frame_pointer(self) -> Register {
        Register(match self {
            Self::Amd64 => 6,
            Self::I386 => 4,
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 => 29,
            Self::S390x => 11,
            Self::Riscv64 => 8,
        })
    }

    /// Returns the column of the return address: 16 and 8 on x86-64 and i386 (pseudo registers), x30 is 30,
    /// r14 14, RISC-V's ra 1.
    pub const fn return_address(self) -> Register {
        Register(match self {
            Self::Amd64 => 16,
            Self::I386 => 8,
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 => 30,
            Self::S390x => 14,
            Self::Riscv64 => 1,
        })
    }

    /// Returns the `cputype` of Mach-O files, from `mach/machine.h`, or `None` if the architecture has no
    /// Mach-O files.
    pub const fn mach_o_cpu_type(self) -> Option<u32> {
        match self {
            Self::I386 => Some(7),
            Self::Amd64 => Some(0x0100_0007),
            Self::Aarch64 => Some(0x0100_000c),
            Self::Arm64_32 => Some(0x0200_000c),
            Self::Aarch64Be | Self::S390x | Self::Riscv64 => None,
        }
    }

    /// Returns whether the architecture has compact unwind encodings.
    #[inline]
    pub const fn has_compact_unwind(self) -> bool {
        match self {
            Self::Amd64 | Self::I386 | Self::Aarch64 | Self::Arm64_32 => true,
            Self::Aarch64Be | Self::S390x | Self::Riscv64 => false,
        }
    }

    /// Returns the code alignment factor and the data alignment factor of CIEs, as gas 2.47 and LLVM 23 write
    /// them.
    #[inline]
    pub const fn cfi_alignment(self) -> (u64, i64) {
        match self {
            Self::Amd64 | Self::S390x => (1, -8),
            Self::I386 | Self::Riscv64 => (1, -4),
            Self::Aarch64 | Self::Aarch64Be => (4, -8),
            Self::Arm64_32 => (4, -4),
        }
    }

    /// Returns the distance from the CFA to the caller's stack pointer, in bytes. It is -160 on s390x, where
    /// the CFA is the end of the 160-byte register save area, and 0 elsewhere.
    pub const fn stack_pointer_from_cfa(self) -> i64 {
        match self {
            Self::S390x => -160,
            Self::Amd64 | Self::I386 | Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 | Self::Riscv64 => 0,
        }
    }

    /// Returns whether functions save the stack pointer at their entry, as functions of s390x save r15. A rule
    /// for the saved stack pointer then agrees with the ABI.
    pub const fn saves_stack_pointer(self) -> bool {
        match self {
            Self::S390x => true,
            Self::Amd64 | Self::I386 | Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 | Self::Riscv64 => {
                false
            }
        }
    }

    /// Returns the number of bytes that a call pushes. On x86 this is the return address, the topmost word of
    /// the frame. It is 0 where a call leaves the return address in a register.
    #[inline]
    pub const fn pushed_by_call(self) -> i64 {
        match self {
            Self::Amd64 => 8,
            Self::I386 => 4,
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 | Self::S390x | Self::Riscv64 => 0,
        }
    }

    /// Returns the number of bytes below the stack pointer that no signal handler overwrites, by System V's psABIs.
    pub const fn red_zone(self) -> u32 {
        match self {
            Self::Amd64 => 128,
            Self::I386 | Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 | Self::S390x | Self::Riscv64 => 0,
        }
    }

    /// Returns the number of bytes below the stack pointer that no signal handler overwrites on Apple's systems.
    /// Source: Apple, "Writing ARM64 code for Apple platforms".
    pub const fn red_zone_of_apple(self) -> u32 {
        match self {
            Self::Amd64 | Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 => 128,
            Self::I386 | Self::S390x | Self::Riscv64 => 0,
        }
    }

    /// Returns the two words that a frame pointer points to, in a function that keeps a frame pointer.
    ///
    /// Returns `None` if the ABI does not define them: the frame pointer of s390x is an ordinary register, and
    /// the frame pointer of RISC-V points to the end of the frame.
    ///
    /// Source: x86-64 psABI, figure 3.3 ("Stack Frame with Base Pointer"); AAPCS64, section 6.4.6 ("The Frame
    /// Pointer").
    pub const fn frame_record(self) -> Option<FrameRecord> {
        let pointer = self.pointer_size() as u64;
        let ends_frame = match self.family() {
            Family::X86 => true,
            Family::Aarch64 => false,
            Family::S390x | Family::Riscv => return None,
        };
        Some(FrameRecord { frame_pointer: 0, return_address: pointer, size: 2 * pointer, ends_frame })
    }

    /// Returns the CFA's offset from the [stack pointer](Self::stack_pointer) at a function's entry, in bytes.
    pub const fn cfa_offset_at_entry(self) -> i64 {
        match self {
            Self::Amd64 => 8,
            Self::I386 => 4,
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 | Self::Riscv64 => 0,
            Self::S390x => 160,
        }
    }

    /// Returns whether the psABI's DWARF numbering ("DWARF Register Number Mapping") has a register of this number.
    ///
    /// x86-64 psABI, table 3.36, with APX's r16 to r31; i386 psABI, table 2.14; "DWARF for the Arm 64-bit
    /// Architecture", section 4.1; s390x ELF ABI supplement, table 1.19;
    /// RISC-V ELF psABI, table "DWARF register number encodings".
    pub const fn has_register(self, register: Register) -> bool {
        match self {
            Self::Amd64 => matches!(register.0, 0..=55 | 58..=59 | 62..=82 | 118..=145),
            Self::I386 => matches!(register.0, 0..=9 | 11..=18 | 21..=37 | 39..=45 | 48..=49 | 93..=102),
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 => {
                matches!(register.0, 0..=39 | 46..=127)
            }
            Self::S390x => matches!(register.0, 0..=65 | 68..=83),
            Self::Riscv64 => matches!(register.0, 0..=64 | 96..=127 | 4096..=8191),
        }
    }

    /// Returns whether this is 64-bit AArch64 of either byte order.
    #[inline]
    pub const fn is_aarch64(self) -> bool {
        match self {
            Self::Aarch64 | Self::Aarch64Be => true,
            Self::Amd64 | Self::I386 | Self::Arm64_32 | Self::S390x | Self::Riscv64 => false,
        }
    }
}

impl core::fmt::Display for Arch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "x86-64",
            Self::I386 => "i386",
            Self::Aarch64 => "AArch64",
            Self::Aarch64Be => "big-endian AArch64",
            Self::Arm64_32 => "arm64_32",
            Self::S390x => "s390x",
            Self::Riscv64 => "riscv64",
        })
    }
}

impl core::fmt::Display for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_has_each_architecture_at_its_number() {
        // The match fails to compile without a new architecture, and the numbers then fail if `ALL` lacks it.
        let number = |arch| match arch {
            Arch::Amd64 => 0,
            Arch::I386 => 1,
            Arch::Aarch64 => 2,
            Arch::Aarch64Be => 3,
            Arch::Arm64_32 => 4,
            Arch::S390x => 5,
            Arch::Riscv64 => 6,
        };
        assert!(Arch::ALL.into_iter().map(number).eq(0..7));
    }

    #[test]
    fn a_name_is_of_one_architecture() {
        for arch in Arch::ALL {
            assert!(arch.names().iter().all(|name| Arch::named(name) == Some(arch)), "{arch}");
        }
        assert_eq!(Arch::named("sparc"), None);
    }
}
