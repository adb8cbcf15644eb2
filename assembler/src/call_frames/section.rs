//! The section of call frame information.

use alloc::vec::Vec;

use cfipack_format::elf::{Relocated, RelocationType};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Key, SectionOffset};

use crate::cfi::{Section, SectionKind};

/// A `.eh_frame` or `.debug_frame` that needs only addresses.
#[derive(Clone, Debug)]
pub struct CallFrames {
    pub(super) kind: SectionKind,
    pub(super) arch: Arch,
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Relocation>,
    pub(super) labels: Vec<SectionOffset>,
}

/// A field that depends on an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// The offset of the field.
    pub offset: SectionOffset,
    /// Bytes of the field.
    pub size: u8,
    /// True if the field has the distance from itself to the target, not the target's address.
    pub is_pc_relative: bool,
    /// True if the field's value is signed.
    pub is_signed: bool,
    /// The target that the field leads to.
    pub target: Target,
    /// Bytes that are added to the target's address.
    pub addend: i64,
}

/// A target of a field, by the caller's keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Target {
    /// The first byte of a function.
    Function(Key),
    /// A personality routine, or the cell with its address.
    Personality(Key),
    /// A language-specific data area.
    Lsda(Key),
    /// The start of the `.debug_frame` itself, in a relocatable object. In a linked file it is address 0,
    /// because the field is an offset in the section.
    Section,
}

cfipack_format::errors! {
    /// The reason why a section cannot be placed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum PlaceError {
        /// The memory is not as long as the section.
        #[error("a section of {section} bytes does not fit memory of {memory}")]
        Length {
            /// Bytes of the section.
            section: usize,
            /// Bytes of the memory.
            memory: usize,
        },
        /// A field cannot hold its value.
        #[error("the field of {size} bytes at {offset} cannot hold {value:#x}")]
        OutOfRange {
            /// The offset of the field.
            offset: SectionOffset,
            /// Bytes of the field.
            size: u8,
            /// The value, as 64 bits.
            value: u64,
        },
        /// The object format has no relocation for a field.
        #[error("the object has no relocation for the field at {offset}")]
        NoRelocation {
            /// The offset of the field.
            offset: SectionOffset,
        },
    }
}

impl CallFrames {
    /// Returns the section for a reader of CFI, before it is placed.
    pub fn section(&self) -> Section<'_> {
        Section::new(self.kind, &self.bytes, Address(0), self.arch)
    }

    /// Returns the kind of the section.
    pub fn kind(&self) -> SectionKind {
        self.kind
    }

    /// Returns the size of the section in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the section for a relocatable object. Fields that depend on an address are 0, so relocations
    /// must have addends of their own.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the fields that depend on an address, in ascending order.
    pub fn relocations(&self) -> &[Relocation] {
        &self.relocations
    }

    /// Returns the offset of each `.cfi_label`, in the order of functions and directives.
    pub fn labels(&self) -> &[SectionOffset] {
        &self.labels
    }

    /// Writes the section into `out`, to lie at `address`. `address_of` returns the address of each target
    /// except [`Target::Section`]. You can call this function again for other addresses.
    ///
    /// # Errors
    /// A field cannot hold its value, or `out` has another length than the section. Do not use `out` then.
    pub fn write(
        &self,
        out: &mut [u8],
        address: Address,
        address_of: impl Fn(Target) -> Address,
    ) -> Result<(), PlaceError> {
        if out.len() != self.bytes.len() {
            return Err(PlaceError::Length { section: self.bytes.len(), memory: out.len() });
        }
        out.copy_from_slice(&self.bytes);
        for relocation in &self.relocations {
            let target = match relocation.target {
                Target::Section => Address(0),
                target => address_of(target),
            };
            relocation.apply(self.arch, out, address, target)?;
        }
        Ok(())
    }

    /// Returns the section as [`write`](Self::write) writes it.
    ///
    /// # Errors
    /// A field cannot hold its value.
    pub fn to_vec(
        &self,
        address: Address,
        address_of: impl Fn(Target) -> Address,
    ) -> Result<Vec<u8>, PlaceError> {
        let mut out = alloc::vec![0; self.bytes.len()];
        self.write(&mut out, address, address_of)?;
        Ok(out)
    }
}

impl Relocation {
    /// Returns the type of an ELF relocation (`R_X86_64_PC32`, `R_AARCH64_ABS64` and so on; the architectures'
    /// psABIs). Returns `None` if the architecture has no type for the field.
    pub fn elf_type(&self, arch: Arch) -> Option<RelocationType> {
        let value = match (self.is_pc_relative, self.is_signed) {
            (true, _) => Relocated::Distance,
            (false, true) => Relocated::SignedAddress,
            (false, false) => Relocated::Address,
        };
        arch.relocation(self.size, value)
    }

    fn apply(&self, arch: Arch, out: &mut [u8], section: Address, target: Address) -> Result<(), PlaceError> {
        let SectionOffset(at) = self.offset;
        let here = if self.is_pc_relative { section.0.wrapping_add(at.to_u64()) } else { 0 };
        let value = target.0.wrapping_add_signed(self.addend).wrapping_sub(here);
        let is_signed = self.is_signed || self.is_pc_relative;
        let bits = u32::from(self.size) * 8;
        // A distance of an address's size wraps as addresses do, if both ends are addresses of the architecture.
        let is_address = |address: u64| bits >= 64 || address >> bits == 0;
        let wraps = self.is_pc_relative && self.size == arch.pointer_size();
        let fits = bits >= 64
            || if wraps {
                is_address(here) && is_address(target.0)
            } else if is_signed && self.size < arch.pointer_size() {
                (value as i64) >> (bits - 1) == (value as i64) >> 63
            } else {
                value >> bits == 0
            };
        if !fits {
            return Err(PlaceError::OutOfRange { offset: self.offset, size: self.size, value });
        }
        self.put(arch, out, value);
        Ok(())
    }

    /// Puts a value into the field.
    pub(super) fn put(&self, arch: Arch, out: &mut [u8], value: u64) {
        let (SectionOffset(at), endian) = (self.offset, arch.endian());
        match self.size {
            2 => out[at..at + 2].copy_from_slice(&endian.put_u16(value as u16)),
            4 => out[at..at + 4].copy_from_slice(&endian.put_u32(value as u32)),
            _ => out[at..at + 8].copy_from_slice(&endian.put_u64(value)),
        }
    }
}
