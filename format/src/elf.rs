//! Numbers of ELF that depend on the architecture: `e_machine`, and the relocations of unwind tables.

use crate::{Arch, Endian};

/// The section type of `.sframe`, which binutils uses since 2.45.
pub const SHT_GNU_SFRAME: u32 = 0x6fff_fff4;

/// A type of relocation, from the architecture's psABI.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct RelocationType {
    /// The number, for example 2 for `R_X86_64_PC32`.
    pub number: u32,
    /// The name, for example `R_X86_64_PC32`.
    pub name: &'static str,
}

/// The value that a relocation stores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relocated {
    /// An address. A wider field is filled with zeros.
    Address,
    /// An address. A wider field is filled with copies of the sign.
    SignedAddress,
    /// The distance from the field to an address.
    Distance,
}

impl Arch {
    /// Returns the `e_machine` of ELF files, from the System V ABI.
    pub const fn elf_machine(self) -> u16 {
        match self {
            Self::I386 => 3,
            Self::S390x => 22,
            Self::Amd64 => 62,
            Self::Aarch64 | Self::Aarch64Be | Self::Arm64_32 => 183,
            Self::Riscv64 => 243,
        }
    }

    /// Returns the architecture of a 64-bit ELF file, by its `e_machine` and its byte order. Returns `None` for
    /// an architecture whose files cfipack does not read: riscv64 is supported for generated code only.
    pub fn of_elf64(machine: u16, endian: Endian) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| {
            let is_read = arch.relocation(8, Relocated::Address).is_some();
            is_read && arch.elf_machine() == machine && arch.endian() == endian
        })
    }

    /// Returns the relocation of a field of 2, 4 or 8 bytes. Returns `None` for other sizes, and for an
    /// architecture whose relocatable objects cfipack does not support.
    pub const fn relocation(self, size: u8, value: Relocated) -> Option<RelocationType> {
        use Relocated::{Address, Distance, SignedAddress};
        let (number, name) = match self {
            Self::Amd64 => match (size, value) {
                (8, Address | SignedAddress) => (1, "R_X86_64_64"),
                (4, Distance) => (2, "R_X86_64_PC32"),
                (4, Address) => (10, "R_X86_64_32"),
                (4, SignedAddress) => (11, "R_X86_64_32S"),
                (2, Address | SignedAddress) => (12, "R_X86_64_16"),
                (2, Distance) => (13, "R_X86_64_PC16"),
                (8, Distance) => (24, "R_X86_64_PC64"),
                _ => return None,
            },
            Self::Aarch64 | Self::Aarch64Be => match (size, value) {
                (8, Address | SignedAddress) => (257, "R_AARCH64_ABS64"),
                (4, Address | SignedAddress) => (258, "R_AARCH64_ABS32"),
                (2, Address | SignedAddress) => (259, "R_AARCH64_ABS16"),
                (8, Distance) => (260, "R_AARCH64_PREL64"),
                (4, Distance) => (261, "R_AARCH64_PREL32"),
                (2, Distance) => (262, "R_AARCH64_PREL16"),
                _ => return None,
            },
            Self::S390x => match (size, value) {
                (2, Address | SignedAddress) => (3, "R_390_16"),
                (4, Address | SignedAddress) => (4, "R_390_32"),
                (4, Distance) => (5, "R_390_PC32"),
                (2, Distance) => (16, "R_390_PC16"),
                (8, Address | SignedAddress) => (22, "R_390_64"),
                (8, Distance) => (23, "R_390_PC64"),
                _ => return None,
            },
            Self::I386 | Self::Arm64_32 | Self::Riscv64 => return None,
        };
        Some(RelocationType { number, name })
    }
}
