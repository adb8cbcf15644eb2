//! The ABI of a section: its architecture, and the meaning of data words on this architecture.

use super::Version;
use crate::Arch;
use crate::elf::{Relocated, RelocationType};

/// The ABI of a section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Abi {
    /// `SFRAME_ABI_AARCH64_ENDIAN_BIG`.
    Aarch64Be = 1,
    /// `SFRAME_ABI_AARCH64_ENDIAN_LITTLE`.
    Aarch64 = 2,
    /// `SFRAME_ABI_AMD64_ENDIAN_LITTLE`.
    Amd64 = 3,
    /// `SFRAME_ABI_S390X_ENDIAN_BIG`.
    S390x = 4,
}

impl Abi {
    /// Returns the ABI with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Aarch64Be),
            2 => Some(Self::Aarch64),
            3 => Some(Self::Amd64),
            4 => Some(Self::S390x),
            _ => None,
        }
    }

    /// Returns the ABI of an architecture, or `None` if the format has no ABI for it.
    pub const fn for_arch(arch: Arch) -> Option<Self> {
        match arch {
            Arch::Amd64 => Some(Self::Amd64),
            Arch::Aarch64 => Some(Self::Aarch64),
            Arch::Aarch64Be => Some(Self::Aarch64Be),
            Arch::S390x => Some(Self::S390x),
            Arch::I386 | Arch::Arm64_32 | Arch::Riscv64 => None,
        }
    }

    /// Returns the architecture of the ABI.
    pub const fn arch(self) -> Arch {
        match self {
            Self::Aarch64Be => Arch::Aarch64Be,
            Self::Aarch64 => Arch::Aarch64,
            Self::Amd64 => Arch::Amd64,
            Self::S390x => Arch::S390x,
        }
    }

    /// Returns the offset of the return address from the CFA in bytes, if it is the same in every row. This is
    /// the header's `cfa_fixed_ra_offset`. 0 means that the rows store the offset.
    pub const fn fixed_ra_offset(self) -> i8 {
        match self {
            Self::Amd64 => -8,
            Self::Aarch64 | Self::Aarch64Be | Self::S390x => 0,
        }
    }

    /// Returns how to decode the CFA's data word: the CFA's offset for a word of 0, and the offset's increase
    /// per unit of the word, both in bytes.
    #[inline]
    pub const fn cfa_word_unit(self) -> (i64, i64) {
        match self {
            Self::S390x => (160, 8),
            Self::Amd64 | Self::Aarch64 | Self::Aarch64Be => (0, 1),
        }
    }

    /// Returns whether a default FRE that has a place for the frame pointer but not for the return address has
    /// a word of 0 for the return address. If not, a default FRE cannot represent such a row.
    #[inline]
    pub const fn pads_return_address(self) -> bool {
        match self {
            Self::S390x => true,
            Self::Amd64 | Self::Aarch64 | Self::Aarch64Be => false,
        }
    }

    /// Returns whether an odd word of a default FRE is a register number times 2 plus 1, as binutils 2.45 writes
    /// it on s390x. Then an odd offset cannot be represented. Version 3 has flex FDEs instead.
    #[inline]
    pub const fn has_register_words(self, version: Version) -> bool {
        match (self, version) {
            (Self::S390x, Version::V2) => true,
            (Self::S390x, Version::V1 | Version::V3) | (Self::Amd64 | Self::Aarch64 | Self::Aarch64Be, _) => {
                false
            }
        }
    }

    /// Returns the relocation of an FDE's start in a relocatable object: the distance from the field to the
    /// function.
    pub const fn start_relocation(self, version: Version) -> RelocationType {
        match self.arch().relocation(version.start_size() as u8, Relocated::Distance) {
            Some(relocation) => relocation,
            // Each architecture with an ABI has relocations of these sizes, see the test.
            None => unreachable!(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_abi_has_relocations() {
        for abi in Arch::ALL.into_iter().filter_map(Abi::for_arch) {
            for version in Version::ALL {
                assert!(abi.start_relocation(version).name.starts_with("R_"));
            }
        }
    }
}
