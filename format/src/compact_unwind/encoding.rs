//! The 32-bit compact encoding.

use core::fmt;

use bitflags::bitflags;

use super::Pairs;
use crate::{Arch, Family};

/// The largest offset into `__eh_frame` that a DWARF-mode encoding can hold.
pub const DWARF_OFFSET_MAX: u32 = 0x00ff_ffff;

bitflags! {
    /// The flags at the top of an encoding.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Flags: u32 {
        /// `UNWIND_IS_NOT_FUNCTION_START`: the entry begins inside a function.
        const NOT_FUNCTION_START = 0x8000_0000;
        /// `UNWIND_HAS_LSDA`: the function has a language-specific data area.
        const HAS_LSDA = 0x4000_0000;
    }
}

/// The mode of an encoding, in bits 24 to 27.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// No unwind information. Number 0.
    None,
    /// A frame pointer, with callee-saved registers below it. x86: 1, arm64: 4.
    Frame,
    /// No frame pointer, the stack's size in the encoding. Number 2.
    Frameless,
    /// x86: no frame pointer, the stack's size in the function's `sub esp/rsp, imm32`. Number 3.
    FramelessIndirect,
    /// See the function's FDE in `__eh_frame`. x86: 4, arm64: 3.
    Dwarf,
    /// arm64: a frame as in mode `Frame`, whose return address is signed with the address of the instruction that
    /// signs it (PAuth-LR). Number 5.
    FramePauthLr,
}

/// A compact encoding: how to unwind a function. `compact_unwind_encoding.h` defines it as `UNWIND_*`.
///
/// | bits | meaning |
/// |---|---|
/// | 31, 30 | [`Flags`] |
/// | 28, 29 | personality, counted from 1; 0 = none |
/// | 24 to 27 | [`Mode`] |
/// | 0 to 23 | by mode and architecture |
///
/// x86, a word being a pointer's size:
///
/// | mode | bits 16 to 23 | 15 | 13, 14 | 10 to 12 | 0 to 9 |
/// |---|---|---|---|---|---|
/// | frame | words from the frame pointer down to the lowest slot | 0 | with 0 to 12: five slots of 3 bits | | |
/// | frameless | words of the stack, return address included | 0 | 0 | registers | permutation |
/// | indirect | bytes from the entry to the imm32 | with 13, 14: words to add to it | | registers | permutation |
///
/// arm64 uses [`Pairs`] in frame mode. Mode `FramePauthLr` has them too, and in bits 12 to 23 the distance from the
/// entry's start to the instruction that signs the return address, in words of 4 bytes. In frameless mode, bits 12 to 23 are 16-byte units of stack, and
/// [`Pairs`] follow below (readers disagree on the places of these registers, so no writer should use them).
///
/// In DWARF mode, on every architecture, bits 0 to 23 are the offset in `__eh_frame` of the FDE, or of a CFI
/// record before it. 0 means that no offset is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Encoding(pub u32);

impl Encoding {
    /// No unwind information.
    pub const NONE: Self = Self(0);

    /// Returns the flags.
    #[inline]
    pub const fn flags(self) -> Flags {
        Flags::from_bits_truncate(self.0)
    }

    /// Returns this encoding with these flags added.
    #[inline]
    pub const fn with_flags(self, flags: Flags) -> Self {
        Self(self.0 | flags.bits())
    }

    /// Returns whether the function has an LSDA.
    #[inline]
    pub const fn has_lsda(self) -> bool {
        self.flags().contains(Flags::HAS_LSDA)
    }

    /// Returns the personality's number, 1 to 3, or 0 for none.
    #[inline]
    pub const fn personality(self) -> u8 {
        (self.0 >> 28 & 3) as u8
    }

    /// Returns this encoding with this personality number. Only the low two bits of the number count.
    #[inline]
    pub const fn with_personality(self, number: u8) -> Self {
        Self(self.0 & !0x3000_0000 | (number as u32 & 3) << 28)
    }

    /// Returns the mode's number, 0 to 15.
    #[inline]
    pub const fn mode_number(self) -> u8 {
        (self.0 >> 24 & 0xf) as u8
    }

    /// Returns the mode, or `None` if the architecture has no mode with this number.
    #[inline]
    pub const fn mode(self, arch: Arch) -> Option<Mode> {
        match (arch.family(), self.mode_number()) {
            _ if !arch.has_compact_unwind() => None,
            (_, 0) => Some(Mode::None),
            (_, 2) => Some(Mode::Frameless),
            (Family::X86, 1) | (Family::Aarch64, 4) => Some(Mode::Frame),
            (Family::X86, 3) => Some(Mode::FramelessIndirect),
            (Family::X86, 4) | (Family::Aarch64, 3) => Some(Mode::Dwarf),
            (Family::Aarch64, 5) => Some(Mode::FramePauthLr),
            (Family::X86 | Family::Aarch64 | Family::S390x | Family::Riscv, _) => None,
        }
    }

    /// Returns whether the encoding counts bytes from the start of its entry, so that it is wrong for another start.
    /// No writer may then merge the entry with a neighbour.
    pub const fn depends_on_start(self, arch: Arch) -> bool {
        matches!(self.mode(arch), Some(Mode::FramelessIndirect | Mode::FramePauthLr))
    }

    /// Returns the set bits below the mode that the mode does not use. Every writer keeps these bits zero. With
    /// mode 0, these are all bits except the flags and the personality. For an unknown mode, there are none.
    pub const fn unused_bits(self, arch: Arch) -> u32 {
        let used = match (self.mode(arch), arch.family()) {
            (None | Some(Mode::Dwarf | Mode::FramelessIndirect), _) => 0x00ff_ffff,
            (Some(Mode::None), _) => 0,
            (Some(Mode::Frame), Family::X86) => 0x00ff_7fff,
            (Some(Mode::Frameless), Family::X86) => 0x00ff_1fff,
            (Some(Mode::Frame), Family::Aarch64 | Family::S390x | Family::Riscv) => Pairs::all().bits(),
            (Some(Mode::Frameless), Family::Aarch64 | Family::S390x | Family::Riscv)
            | (Some(Mode::FramePauthLr), _) => 0x00ff_f000 | Pairs::all().bits(),
        };
        self.0 & 0x00ff_ffff & !used
    }

    /// Creates a DWARF-mode encoding with the offset of an FDE in `__eh_frame`. An offset above
    /// [`DWARF_OFFSET_MAX`] does not fit, and 0 (not given) is stored instead.
    pub const fn dwarf(arch: Arch, fde_offset: u32) -> Self {
        let mode = match arch.family() {
            Family::X86 => 0x0400_0000,
            Family::Aarch64 | Family::S390x | Family::Riscv => 0x0300_0000,
        };
        Self(if fde_offset > DWARF_OFFSET_MAX { mode } else { mode | fde_offset })
    }

    /// DWARF mode: returns the offset in `__eh_frame`, or 0 if none is given.
    #[inline]
    pub const fn dwarf_offset(self) -> u32 {
        self.0 & DWARF_OFFSET_MAX
    }
}

/// x86-64 and i386.
impl Encoding {
    /// Creates an encoding for frame mode.
    ///
    /// The five slots are words. The first is `offset` words below the frame pointer, and the others follow
    /// upward. Each slot has a register number from 1 to 5, or 0 if it is not restored. Only the low three bits
    /// of a number count.
    pub const fn frame(offset: u8, slots: [u8; 5]) -> Self {
        let mut bits = 0x0100_0000 | (offset as u32) << 16;
        let mut i = 0;
        while i < 5 {
            bits |= (slots[i] as u32 & 7) << (3 * i);
            i += 1;
        }
        Self(bits)
    }

    /// Frame mode: returns the number of words from the frame pointer down to the lowest slot.
    #[inline]
    pub const fn frame_offset(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Frame mode: returns the register number of each slot, from the lowest address up. 0 means no register,
    /// and 6 and 7 are invalid.
    #[inline]
    pub const fn frame_slots(self) -> [u8; 5] {
        let bits = self.0;
        [
            (bits & 7) as u8,
            (bits >> 3 & 7) as u8,
            (bits >> 6 & 7) as u8,
            (bits >> 9 & 7) as u8,
            (bits >> 12 & 7) as u8,
        ]
    }

    /// Creates an encoding for frameless mode. The stack has `words` words, including the return address.
    /// `count` registers (up to 6) are saved below the return address, in the order of `permutation`.
    pub const fn frameless(words: u8, count: u8, permutation: u16) -> Self {
        Self(0x0200_0000 | (words as u32) << 16 | order_bits(count, permutation))
    }

    /// Frameless mode: returns the number of words of the stack, including the return address.
    #[inline]
    pub const fn stack_words(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Creates an encoding for indirect mode. The stack's size is the `imm32` that lies `immediate_at` bytes
    /// after the entry's start, plus `adjust` words (up to 7). Registers are as in [`Encoding::frameless`].
    pub const fn frameless_indirect(immediate_at: u8, adjust: u8, count: u8, permutation: u16) -> Self {
        let adjust = (adjust as u32 & 7) << 13;
        Self(0x0300_0000 | (immediate_at as u32) << 16 | adjust | order_bits(count, permutation))
    }

    /// Indirect mode: returns the number of bytes from the entry's start to the `imm32`.
    #[inline]
    pub const fn immediate_at(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Indirect mode: returns the number of words to add to the `imm32`, 0 to 7.
    #[inline]
    pub const fn adjust(self) -> u8 {
        (self.0 >> 13 & 7) as u8
    }

    /// Frameless and indirect mode: returns the number of saved registers, 0 to 7. 7 is invalid.
    #[inline]
    pub const fn count(self) -> u8 {
        (self.0 >> 10 & 7) as u8
    }

    /// Frameless and indirect mode: returns the order of the saved registers, 0 to 1023, see
    /// [`super::decode_order`].
    #[inline]
    pub const fn permutation(self) -> u16 {
        (self.0 & 0x3ff) as u16
    }
}

const fn order_bits(count: u8, permutation: u16) -> u32 {
    (count as u32 & 7) << 10 | permutation as u32 & 0x3ff
}

/// arm64 and arm64_32.
impl Encoding {
    /// Creates an encoding for frame mode. x29 and x30 are at the frame pointer, and the pairs follow downward
    /// below it.
    pub const fn arm64_frame(pairs: Pairs) -> Self {
        Self(0x0400_0000 | pairs.bits())
    }

    /// Creates an encoding for frameless mode. The stack has `units` (up to 4095) times 16 bytes, and the
    /// return address is in x30. Only an assembler that must be compatible with llvm-mc should set pairs here.
    pub const fn arm64_frameless(units: u16, pairs: Pairs) -> Self {
        Self(0x0200_0000 | (units as u32 & 0xfff) << 12 | pairs.bits())
    }

    /// Mode `FramePauthLr`: returns the number of bytes from the entry's start to the instruction that signs the return
    /// address, a multiple of 4 up to 16380.
    #[inline]
    pub const fn signing_at(self) -> u32 {
        (self.0 >> 12 & 0xfff) * 4
    }

    /// Frame modes and frameless mode: returns the saved pairs.
    #[inline]
    pub const fn pairs(self) -> Pairs {
        Pairs::from_bits_truncate(self.0)
    }

    /// Frameless mode: returns the size of the stack in bytes, a multiple of 16 up to 65520.
    #[inline]
    pub const fn stack_bytes(self) -> u32 {
        (self.0 >> 12 & 0xfff) * 16
    }
}

impl fmt::Display for Encoding {
    /// Eight hexadecimal digits with `0x`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

impl fmt::Debug for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoding({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each constructor and its accessors against encodings that llvm-mc 23 wrote.
    #[test]
    fn vectors() {
        // rbp frame; rbx, r12, r13, r14, r15 from the lowest address up.
        let frame = Encoding::frame(5, [1, 2, 3, 4, 5]);
        assert_eq!(frame, Encoding(0x0105_58d1));
        assert_eq!((frame.frame_offset(), frame.frame_slots()), (5, [1, 2, 3, 4, 5]));
        // `push rbx; sub rsp, 4096`.
        let indirect = Encoding::frameless_indirect(4, 2, 1, 0);
        assert_eq!(indirect, Encoding(0x0304_4400));
        assert_eq!((indirect.immediate_at(), indirect.adjust(), indirect.count()), (4, 2, 1));
        assert_eq!(indirect.mode(Arch::Amd64), Some(Mode::FramelessIndirect));
        assert_eq!(Encoding::frameless(0xff, 0, 0), Encoding(0x02ff_0000));
        assert_eq!(Encoding::arm64_frame(Pairs::all()), Encoding(0x0400_0f1f));
        assert_eq!(Encoding::arm64_frameless(4095, Pairs::empty()), Encoding(0x02ff_f000));
        assert_eq!(Encoding(0x02ff_f000).stack_bytes(), 65520);
        assert_eq!(Encoding(0x0400_0212).pairs(), Pairs::X21_X22 | Pairs::X27_X28 | Pairs::D10_D11);
        let handled = Encoding::frame(0, [0; 5]).with_flags(Flags::HAS_LSDA).with_personality(3);
        assert_eq!(handled, Encoding(0x7100_0000));
        assert_eq!((handled.personality(), handled.has_lsda()), (3, true));
        assert_eq!(Encoding::dwarf(Arch::Aarch64, 0x70), Encoding(0x0300_0070));
        assert_eq!(Encoding::dwarf(Arch::Amd64, DWARF_OFFSET_MAX + 1), Encoding(0x0400_0000));
    }

    #[test]
    fn unused_bits() {
        assert_eq!(Encoding(0x0100_8000).unused_bits(Arch::Amd64), 0x8000);
        assert_eq!(Encoding(0x02ff_ffff).unused_bits(Arch::I386), 0xe000);
        assert_eq!(Encoding(0x03ff_ffff).unused_bits(Arch::Amd64), 0);
        assert_eq!(Encoding(0x04ff_ffff).unused_bits(Arch::Aarch64), 0xff_f0e0);
        assert_eq!(Encoding(0x0000_0001).unused_bits(Arch::Aarch64), 1);
        assert_eq!(Encoding(0x0100_0000).mode(Arch::Aarch64), None);
        assert_eq!(Encoding(0x05ff_ffff).unused_bits(Arch::Aarch64), 0xe0);
        assert_eq!(Encoding(0x0500_0000).mode(Arch::Amd64), None);
    }
}
