//! Relocations of rows.

/// The place that a pointer of a row leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RelocationTarget {
    /// A place in a section of the object. llvm-mc has this for functions and LSDAs, which it
    /// knows by assembler-local labels.
    Section {
        /// The section's number in the object, from 1.
        number: u8,
        /// The place's address in the object: the section's own and the bytes into it.
        address: u64,
    },
    /// A symbol; llvm-mc has this for personalities.
    Symbol {
        /// The number in the object's symbol table, from 0, below 2 to the power of 24.
        number: u32,
    },
}

impl RelocationTarget {
    /// The value that the row has in the pointer's place.
    pub(super) const fn addend(self) -> u64 {
        match self {
            Self::Section { address, .. } => address,
            Self::Symbol { .. } => 0,
        }
    }
}

/// A relocation: an absolute pointer (`GENERIC_RELOC_VANILLA`, `X86_64_RELOC_UNSIGNED`,
/// `ARM64_RELOC_UNSIGNED`, all of them type 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// The offset of the pointer in the section.
    pub offset: u32,
    /// The symbol or section that it leads to.
    pub target: RelocationTarget,
    /// The bytes: 4 or 8.
    pub size: u8,
}

impl Relocation {
    /// Bytes on disk.
    pub const SIZE: usize = 8;

    /// The relocation as `struct relocation_info` of `mach-o/reloc.h`, little endian.
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
