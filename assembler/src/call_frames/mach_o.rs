//! Makes the `__eh_frame` of a Mach-O object: the contents of its fields before a link, and their relocations.

use alloc::vec::Vec;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Family, SectionOffset};

use super::section::{CallFrames, PlaceError, Relocation, Target};

/// A target of a field, in a Mach-O object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MachOTarget {
    /// A place of the object.
    Defined {
        /// The address in the object.
        address: Address,
        /// The number of the last symbol at or before the address, in the same section. Only symbols that the
        /// linker sees count.
        symbol: u32,
        /// The symbol's address in the object.
        symbol_address: Address,
    },
    /// A symbol of another file.
    Undefined {
        /// The symbol's number.
        symbol: u32,
    },
}

/// A relocation of a Mach-O object. It refers to a symbol (`r_extern` is 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachORelocation {
    /// The offset of the field.
    pub offset: SectionOffset,
    /// `r_type`: `X86_64_RELOC_GOT`, `ARM64_RELOC_SUBTRACTOR` and so on.
    pub kind: u8,
    /// Bytes of the field.
    pub size: u8,
    /// `r_pcrel`.
    pub is_pc_relative: bool,
    /// The number of the symbol.
    pub symbol: u32,
}

/// An `__eh_frame` as an object has it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MachOFrames {
    /// The section.
    pub bytes: Vec<u8>,
    /// The section's relocations, in the descending order that assemblers write.
    pub relocations: Vec<MachORelocation>,
}

/// `X86_64_RELOC_UNSIGNED`, `ARM64_RELOC_UNSIGNED`, `GENERIC_RELOC_VANILLA` (`mach-o/reloc.h`,
/// `mach-o/*/reloc.h`).
const UNSIGNED: u8 = 0;
const X86_64_RELOC_GOT: u8 = 4;
const ARM64_RELOC_SUBTRACTOR: u8 = 1;
const ARM64_RELOC_POINTER_TO_GOT: u8 = 7;

impl CallFrames {
    /// Returns the `__eh_frame` of a Mach-O object, as llvm-mc 23 writes it for an assembly in the dialect
    /// [`LlvmMachO`](crate::Dialect::LlvmMachO). On x86, a field contains its distance from a place of the
    /// object. On arm64, two relocations make the difference of two symbols, and a field contains the rest of
    /// the distance.
    ///
    /// `address` is the address of the section in the object. `start` is the number of the symbol at the
    /// section's start (for example llvm-mc's `ltmp3`). Only arm64 needs this symbol.
    ///
    /// # Errors
    /// A field cannot hold its value, or there is no relocation for it.
    pub fn to_mach_o(
        &self,
        address: Address,
        start: u32,
        target_of: impl Fn(Target) -> MachOTarget,
    ) -> Result<MachOFrames, PlaceError> {
        let (mut bytes, mut relocations) = (self.bytes.clone(), Vec::new());
        for relocation in self.relocations.iter().rev() {
            let field = Field { arch: self.arch, relocation, address, start };
            let value = field.value(target_of(relocation.target), &mut relocations);
            let value = value.ok_or(PlaceError::NoRelocation { offset: relocation.offset })?;
            relocation.put(self.arch, &mut bytes, value);
        }
        Ok(MachOFrames { bytes, relocations })
    }
}

struct Field<'r> {
    arch: Arch,
    relocation: &'r Relocation,
    address: Address,
    start: u32,
}

impl Field<'_> {
    /// Returns the value of the field, and adds its relocations. Returns `None` if Mach-O has no relocation for
    /// the field.
    fn value(&self, target: MachOTarget, relocations: &mut Vec<MachORelocation>) -> Option<u64> {
        let Relocation { offset, size, is_pc_relative, .. } = *self.relocation;
        let is_x86 = match self.arch.family() {
            Family::X86 => true,
            Family::Aarch64 => false,
            Family::S390x | Family::Riscv => return None,
        };
        let of_symbol =
            |kind, symbol, is_pc_relative| MachORelocation { offset, kind, size, is_pc_relative, symbol };
        let has_size_of_address = size == self.arch.pointer_size();
        match target {
            MachOTarget::Undefined { symbol } if is_pc_relative && size == 4 => {
                let (kind, value) = match self.arch {
                    Arch::Amd64 => (X86_64_RELOC_GOT, 4),
                    Arch::Aarch64 | Arch::Arm64_32 => {
                        (ARM64_RELOC_POINTER_TO_GOT, offset.0.to_u64().wrapping_neg())
                    }
                    Arch::I386 | Arch::Aarch64Be | Arch::S390x | Arch::Riscv64 => return None,
                };
                relocations.push(of_symbol(kind, symbol, true));
                Some(value)
            }
            MachOTarget::Undefined { symbol } if !is_pc_relative && has_size_of_address => {
                relocations.push(of_symbol(UNSIGNED, symbol, false));
                Some(0)
            }
            MachOTarget::Defined { address, .. } if is_pc_relative && is_x86 => {
                Some(address.0.wrapping_sub(self.address.0.wrapping_add(offset.0.to_u64())))
            }
            MachOTarget::Defined { address, symbol, symbol_address } if is_pc_relative => {
                relocations.push(of_symbol(ARM64_RELOC_SUBTRACTOR, self.start, false));
                relocations.push(of_symbol(UNSIGNED, symbol, false));
                Some(address.0.wrapping_sub(symbol_address.0).wrapping_sub(offset.0.to_u64()))
            }
            MachOTarget::Defined { .. } | MachOTarget::Undefined { .. } => None,
        }
    }
}
