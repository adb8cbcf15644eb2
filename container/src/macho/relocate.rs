//! Reads relocations, and applies them to a copy of `__eh_frame`.
//!
//! In a Mach-O object, fields already contain addresses and distances in the object's own address space. The
//! exceptions are fields with a relocation against a symbol: they contain an addend for the symbol's address. We do
//! not move sections, so only these fields have to be changed.

use std::borrow::Cow;

use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch};
use object::LittleEndian as LE;
use object::macho::{self, RelocationType};
use object::pod::slice_from_bytes;

use super::headers::Headers;
use super::range::range;
use crate::error::Error;
use crate::relocation::Relocation;

/// A relocation entry.
#[derive(Clone, Copy, Debug)]
pub struct Fixup {
    /// The offset of the field in bytes from its section's start.
    pub offset: u32,
    /// The relocation type. Its meaning depends on the architecture.
    pub kind: RelocationType,
    /// The size of the field in bytes.
    pub width: usize,
    /// True if the field's own address is subtracted.
    pub relative: bool,
    /// The symbol, section or address that the field refers to.
    pub target: Target,
}

/// The target of a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A symbol, by its index in the symbol table.
    Symbol(usize),
    /// A section, counted from 0, or `None` for an absolute value.
    Section(Option<usize>),
    /// The section that contains this address (i386 only).
    Address(u32),
}

/// The operation that a relocation performs on its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// The relocation does nothing here. The field is right already, or is a pointer to a GOT slot.
    Nothing,
    /// The symbol's address is added.
    Add,
    /// The symbol's address is subtracted. An [`Operation::Add`] of the same field follows.
    Subtract,
}

impl Operation {
    fn of_type(arch: Arch, kind: RelocationType) -> Option<Self> {
        match arch {
            Arch::Amd64 => match kind {
                macho::X86_64_RELOC_UNSIGNED => Some(Self::Add),
                macho::X86_64_RELOC_SUBTRACTOR => Some(Self::Subtract),
                macho::X86_64_RELOC_GOT => Some(Self::Nothing),
                _ => None,
            },
            Arch::I386 => match kind {
                macho::GENERIC_RELOC_VANILLA => Some(Self::Add),
                macho::GENERIC_RELOC_PAIR
                | macho::GENERIC_RELOC_SECTDIFF
                | macho::GENERIC_RELOC_LOCAL_SECTDIFF => Some(Self::Nothing),
                _ => None,
            },
            Arch::Aarch64 | Arch::Arm64_32 => match kind {
                macho::ARM64_RELOC_UNSIGNED => Some(Self::Add),
                macho::ARM64_RELOC_SUBTRACTOR => Some(Self::Subtract),
                macho::ARM64_RELOC_POINTER_TO_GOT => Some(Self::Nothing),
                _ => None,
            },
            Arch::Aarch64Be | Arch::S390x | Arch::Riscv64 => None,
        }
    }
}

impl Headers<'_> {
    /// Returns the relocations of a section in file order.
    ///
    /// # Errors
    /// Fails if the relocations lie beyond the end of the file.
    pub fn fixups(&self, section: usize) -> Result<impl Iterator<Item = Fixup> + use<'_>, Error> {
        let header = &self.sections[section];
        let (offset, count) = (header.relocations_off, header.relocations_count);
        let damaged = Error::Table { what: "relocations", offset, value: count.into() };
        let entries = range(self.bytes, offset, u64::from(count) * 8).ok_or(damaged)?;
        let (entries, _) = slice_from_bytes(entries, count.to_usize()).map_err(|()| damaged)?;
        Ok(entries.iter().map(|entry| self.fixup(entry)))
    }

    /// Returns a section's relocations in the same form as for ELF files. The addend is the value in the field.
    /// If a relocation does not name a symbol, it has the section and a value of 0.
    pub(super) fn relocations(&self, section: usize) -> Result<Vec<Relocation>, Error> {
        let mut all = Vec::new();
        if section >= self.sections.len() {
            return Ok(all);
        }
        let bytes = self.section_bytes(section)?;
        for fixup in self.fixups(section)? {
            let stored = field(bytes, &fixup).ok_or_else(|| self.bad_field(section, &fixup))?;
            let (symbol, section, value) = match fixup.target {
                Target::Symbol(index) => {
                    let symbol = self.symbols.get(index);
                    let symbol = symbol.ok_or_else(|| self.missing_symbol(section, &fixup, index))?;
                    (Some(index), symbol.section, symbol.value)
                }
                Target::Section(section) => (None, section, 0),
                Target::Address(inside) => {
                    (None, self.locate(Address(inside.into())).map(|place| place.section), 0)
                }
            };
            let (offset, kind, relative) = (fixup.offset.into(), fixup.kind.0.into(), fixup.relative);
            let addend = stored.cast_signed();
            all.push(Relocation { offset, kind, relative, symbol, section, value, addend });
        }
        Ok(all)
    }

    fn fixup(&self, entry: &macho::Relocation<LE>) -> Fixup {
        let scattered = match self.arch {
            Arch::I386 => entry.r_scattered(LE, macho::CPU_TYPE_X86),
            Arch::Amd64 | Arch::Aarch64 | Arch::Arm64_32 | Arch::Aarch64Be | Arch::S390x | Arch::Riscv64 => {
                false
            }
        };
        if scattered {
            let info = entry.scattered_info(LE);
            let target = Target::Address(info.r_value);
            let (width, relative) = (1 << info.r_length, info.r_pcrel);
            return Fixup { offset: info.r_address, kind: info.r_type, width, relative, target };
        }
        let info = entry.info(LE);
        let number = info.r_symbolnum.to_usize();
        let target =
            if info.r_extern { Target::Symbol(number) } else { Target::Section(number.checked_sub(1)) };
        let (width, relative) = (1 << info.r_length, info.r_pcrel);
        Fixup { offset: info.r_address, kind: info.r_type, width, relative, target }
    }

    pub(super) fn missing_symbol(&self, section: usize, fixup: &Fixup, symbol: usize) -> Error {
        let section = self.name_for_error(section);
        Error::RelocationSymbol { section, offset: fixup.offset.into(), value: symbol.to_u64() }
    }

    pub(super) fn bad_field(&self, section: usize, fixup: &Fixup) -> Error {
        Error::RelocationField { section: self.name_for_error(section), offset: fixup.offset.into() }
    }
}

/// Applies a section's relocations to its bytes. The bytes are copied first if anything changes.
pub(super) fn apply(file: &Headers<'_>, section: usize, bytes: &mut Cow<'_, [u8]>) -> Result<(), Error> {
    for fixup in file.fixups(section)? {
        let Some(operation) = Operation::of_type(file.arch, fixup.kind) else {
            let (offset, value) = (fixup.offset.into(), fixup.kind.0.into());
            return Err(Error::RelocationType { section: file.name_for_error(section), offset, value });
        };
        let (Target::Symbol(index), true) = (fixup.target, operation != Operation::Nothing) else { continue };
        let symbol = file.symbols.get(index).ok_or_else(|| file.missing_symbol(section, &fixup, index))?;
        let change = match operation {
            Operation::Subtract => symbol.value.wrapping_neg(),
            _ => symbol.value,
        };
        let start = fixup.offset.to_usize();
        if field(bytes, &fixup).is_none() || fixup.width < 4 {
            return Err(file.bad_field(section, &fixup));
        }
        // A field of 4 bytes may wrap around between the two relocations of a pair, and on 32-bit architectures.
        add(&mut bytes.to_mut()[start..start + fixup.width], change);
    }
    Ok(())
}

/// Returns the value in a relocation's field.
pub(super) fn field(bytes: &[u8], fixup: &Fixup) -> Option<u64> {
    let field = bytes.get(fixup.offset.to_usize()..)?.get(..fixup.width)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Adds a number to a field of 4 or 8 bytes. The sum wraps around.
fn add(field: &mut [u8], change: u64) {
    if let Ok(eight) = <[u8; 8]>::try_from(&*field) {
        field.copy_from_slice(&u64::from_le_bytes(eight).wrapping_add(change).to_le_bytes());
    } else if let Ok(four) = <[u8; 4]>::try_from(&*field) {
        field.copy_from_slice(&u32::from_le_bytes(four).wrapping_add(change as u32).to_le_bytes());
    }
}
