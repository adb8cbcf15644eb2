//! The relocations of `__compact_unwind`.

/// The target of a pointer in a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RelocationTarget {
    /// A place in a section of the object. Llvm-mc uses this form for functions and LSDAs, because it knows them by
    /// local labels.
    Section {
        /// The number of the section in the object, counted from 1.
        number: u8,
        /// The address of the place in the object: the section's address plus the offset in the section.
        address: u64,
    },
    /// A symbol. Llvm-mc uses this form for personalities.
    Symbol {
        /// The symbol's index in the object's symbol table. It must be below 2^24.
        number: u32,
    },
}

impl RelocationTarget {
    /// Returns the value that is stored in the row's pointer.
    pub(super) const fn addend(self) -> u64 {
        match self {
            Self::Section { address, .. } => address,
            Self::Symbol { .. } => 0,
        }
    }
}

/// A relocation for an absolute pointer (`GENERIC_RELOC_VANILLA`, `X86_64_RELOC_UNSIGNED` or `ARM64_RELOC_UNSIGNED`;
/// each has type 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// The offset of the pointer in the section, in bytes.
    pub offset: u32,
    /// The symbol or section that the pointer leads to.
    pub target: RelocationTarget,
    /// The size of the pointer in bytes: 4 or 8.
    pub size: u8,
}

impl Relocation {
    /// The size of a relocation on disk in bytes.
    pub const SIZE: usize = 8;

    /// Returns the relocation as `struct relocation_info` of `mach-o/reloc.h`, little-endian.
    ///
    /// | bits | field |
    /// |---|---|
    /// | 0 to 31 | offset in the section |
    /// | 32 to 55 | number of the symbol, or of the section |
    /// | 56 | relative to the PC, 0 |
    /// | 57, 58 | size: 2 = 4 bytes, 3 = 8 bytes |
    /// | 59 | the number is a symbol's |
    /// | 60 to 63 | type, 0 |
    pub const fn write(&self) -> [u8; Self::SIZE] {
        let (number, external) = match self.target {
            RelocationTarget::Section { number, .. } => (number as u32, 0),
            RelocationTarget::Symbol { number } => (number & 0x00ff_ffff, 1),
        };
        let size = if self.size == 8 { 3 } else { 2 };
        let high = number | size << 25 | external << 27;
        (self.offset as u64 | (high as u64) << 32).to_le_bytes()
    }
}
