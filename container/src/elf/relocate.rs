//! Applies the relocations of relocatable objects to copies of sections.
//!
//! Only the relocations of `.eh_frame`, `.debug_frame` and `.sframe` are known: addresses and distances of 4 and 8
//! bytes (`S + A` and `S + A - P` in the psABIs).

use std::borrow::Cow;

use cfipack_format::Arch;
use cfipack_format::widen::{ToU64, ToUsize};
use object::SectionIndex;
use object::elf;
use object::read::elf::{Crel, SectionHeader as _};

use super::headers::Headers;
use super::linked_symbols::{Defined, ExtendedIndexes, LinkedSymbols};
use super::placement::Addresses;
use crate::error::Error;
use crate::relocation::Relocation;

/// The relocation sections of a file, by the section that they apply to.
#[derive(Default, Debug)]
pub(super) struct RelocationIndex {
    /// Pairs of a section and its relocation section, sorted.
    pairs: Vec<(usize, usize)>,
    extended: ExtendedIndexes,
}

impl RelocationIndex {
    /// Reads only the section headers.
    pub(super) fn read(headers: &Headers<'_>) -> Self {
        let mut pairs = Vec::new();
        for (index, section) in headers.sections.enumerate() {
            let kind = section.sh_type(headers.endian);
            if matches!(kind, elf::SHT_RELA | elf::SHT_REL | elf::SHT_CREL) {
                pairs.push((section.sh_info(headers.endian).to_usize(), index.0));
            }
        }
        pairs.sort_unstable();
        Self { pairs, extended: ExtendedIndexes::read(headers) }
    }

    /// Applies a section's relocations to its bytes. The bytes are copied first if there are any relocations.
    pub(super) fn apply(
        &self,
        headers: &Headers<'_>,
        addresses: &Addresses,
        section: usize,
        bytes: &mut Cow<'_, [u8]>,
    ) -> Result<(), Error> {
        for relocation in self.relocations(headers, section, bytes)? {
            store(headers, addresses, section, bytes, relocation)?;
        }
        Ok(())
    }

    /// Returns the relocations of a section in file order. The `bytes` are the section's bytes; they hold implicit
    /// addends.
    pub(super) fn relocations(
        &self,
        headers: &Headers<'_>,
        section: usize,
        bytes: &[u8],
    ) -> Result<Vec<Relocation>, Error> {
        let Headers { endian, bytes: file, sections, .. } = *headers;
        let mut all = Vec::new();
        for holder in self.relocation_sections(section) {
            let Ok(header) = sections.section(SectionIndex(holder)) else { continue };
            let (offset, value) = (header.sh_offset(endian), header.sh_size(endian));
            let damage = Error::Table { what: "relocations", offset, value };
            let damaged = |_: object::Error| damage;
            let symbols = self.extended.symbols(headers, header.sh_link(endian).to_usize()).ok_or(damage)?;
            let mut push = |entry: Crel, implicit: bool| {
                // A field has at most one relocation. So if there are more relocations than bytes, the file is
                // damaged.
                if all.len() > bytes.len() {
                    return Err(damage);
                }
                all.push(resolve(headers, section, &symbols, &entry, implicit.then_some(bytes))?);
                Ok(())
            };
            if let Some((entries, _)) = header.rela(endian, file).map_err(damaged)? {
                entries.iter().try_for_each(|entry| push(Crel::from_rela(entry, endian, false), false))?;
            } else if let Some((entries, _)) = header.rel(endian, file).map_err(damaged)? {
                entries.iter().try_for_each(|entry| push(Crel::from_rel(entry, endian), true))?;
            } else if let Some((mut entries, _)) = header.crel(endian, file).map_err(damaged)? {
                let implicit = !entries.is_rela();
                entries.try_for_each(|entry| push(entry.map_err(damaged)?, implicit))?;
            }
        }
        Ok(all)
    }

    /// Returns the offsets of fields that get the address of a defined symbol, or the distance to it, ascending.
    pub(super) fn defined_fields(
        &self,
        headers: &Headers<'_>,
        section: usize,
        bytes: &[u8],
    ) -> Result<Vec<u64>, Error> {
        let mut fields = Vec::new();
        for relocation in self.relocations(headers, section, bytes)? {
            let operation = Operation::of_type(headers.arch, relocation.kind);
            if relocation.section.is_some() && matches!(operation, Some(Operation::Store { .. })) {
                fields.push(relocation.offset);
            }
        }
        fields.sort_unstable();
        Ok(fields)
    }

    fn relocation_sections(&self, section: usize) -> impl Iterator<Item = usize> {
        let first = self.pairs.partition_point(|&(target, _)| target < section);
        self.pairs[first..].iter().take_while(move |&&(target, _)| target == section).map(|&(_, index)| index)
    }
}

/// The operation that a relocation performs on its field.
#[derive(Clone, Copy)]
enum Operation {
    /// The relocation does nothing here. It is a marker, or it is a pointer to a GOT slot. Pointers to personalities
    /// go through GOT slots; starts of functions never do.
    Nothing,
    /// The relocation stores `S + A` in `width` bytes, or `S + A - P` if it is relative.
    Store { width: usize, relative: bool },
}

impl Operation {
    fn of_type(arch: Arch, kind: u32) -> Option<Self> {
        let store = |width, relative| Some(Self::Store { width, relative });
        let kind = elf::RelocationType(kind);
        match arch {
            Arch::Amd64 => match kind {
                elf::R_X86_64_NONE | elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCREL64 => Some(Self::Nothing),
                elf::R_X86_64_64 => store(8, false),
                elf::R_X86_64_32 | elf::R_X86_64_32S => store(4, false),
                elf::R_X86_64_PC64 => store(8, true),
                elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => store(4, true),
                _ => None,
            },
            Arch::Aarch64 | Arch::Aarch64Be => match kind {
                elf::R_AARCH64_NONE | elf::R_AARCH64_GOTPCREL32 => Some(Self::Nothing),
                elf::R_AARCH64_ABS64 => store(8, false),
                elf::R_AARCH64_ABS32 => store(4, false),
                elf::R_AARCH64_PREL64 => store(8, true),
                elf::R_AARCH64_PREL32 | elf::R_AARCH64_PLT32 => store(4, true),
                _ => None,
            },
            Arch::S390x => match kind {
                elf::R_390_NONE => Some(Self::Nothing),
                elf::R_390_64 => store(8, false),
                elf::R_390_32 => store(4, false),
                elf::R_390_PC64 | elf::R_390_PLT64 => store(8, true),
                elf::R_390_PC32 | elf::R_390_PLT32 => store(4, true),
                _ => None,
            },
            Arch::I386 | Arch::Arm64_32 | Arch::Riscv64 => None,
        }
    }
}

/// Looks up a relocation's symbol. An implicit addend is read from `field_bytes`, which are the bytes of the section.
fn resolve(
    headers: &Headers<'_>,
    section: usize,
    symbols: &LinkedSymbols<'_>,
    entry: &Crel,
    field_bytes: Option<&[u8]>,
) -> Result<Relocation, Error> {
    let operation = Operation::of_type(headers.arch, entry.r_type.0);
    let mut relocation = Relocation {
        offset: entry.r_offset,
        kind: entry.r_type.0,
        relative: matches!(operation, Some(Operation::Store { relative: true, .. })),
        symbol: (entry.r_sym != 0).then_some(entry.r_sym.to_usize()),
        section: None,
        value: 0,
        addend: entry.r_addend,
    };
    if let Some(bytes) = field_bytes {
        relocation.addend = implicit_addend(headers, section, bytes, &relocation)?;
    }
    let Some(index) = relocation.symbol else { return Ok(relocation) };
    let Defined { section: defined_in, value } =
        symbols.defined(headers.endian, index).ok_or_else(|| Error::RelocationSymbol {
            section: headers.name_for_error(section),
            offset: relocation.offset,
            value: index.to_u64(),
        })?;
    (relocation.section, relocation.value) = (defined_in, value);
    Ok(relocation)
}

fn implicit_addend(
    headers: &Headers<'_>,
    section: usize,
    bytes: &[u8],
    relocation: &Relocation,
) -> Result<i64, Error> {
    let Some(Operation::Store { width, .. }) = Operation::of_type(headers.arch, relocation.kind) else {
        return Ok(0);
    };
    let endian = headers.arch.endian();
    let range = field_range(bytes.len(), relocation.offset, width);
    let field = range.and_then(|range| bytes.get(range)).unwrap_or_default();
    if let Ok(eight) = <[u8; 8]>::try_from(field) {
        return Ok(endian.u64(eight).cast_signed());
    }
    if let Ok(four) = <[u8; 4]>::try_from(field) {
        return Ok(endian.u32(four).cast_signed().into());
    }
    Err(Error::RelocationField { section: headers.name_for_error(section), offset: relocation.offset })
}

fn store(
    headers: &Headers<'_>,
    addresses: &Addresses,
    section: usize,
    bytes: &mut Cow<'_, [u8]>,
    relocation: Relocation,
) -> Result<(), Error> {
    let Relocation { offset, kind, .. } = relocation;
    let Some(operation) = Operation::of_type(headers.arch, kind) else {
        return Err(Error::RelocationType { section: headers.name_for_error(section), offset, value: kind });
    };
    let Operation::Store { width, relative } = operation else { return Ok(()) };
    let Some(range) = field_range(bytes.len(), offset, width) else {
        return Err(Error::RelocationField { section: headers.name_for_error(section), offset });
    };
    let symbol = relocation.section.map_or(0, |section| addresses.of_section(section));
    let mut value = symbol.wrapping_add(relocation.value).wrapping_add_signed(relocation.addend);
    if relative {
        value = value.wrapping_sub(addresses.of_section(section).wrapping_add(offset));
    }
    let endian = headers.arch.endian();
    let field = &mut bytes.to_mut()[range];
    if width == 8 {
        field.copy_from_slice(&endian.put_u64(value));
        return Ok(());
    }
    let fits = i32::try_from(value.cast_signed()).is_ok() || (!relative && u32::try_from(value).is_ok());
    if !fits {
        return Err(Error::RelocationOverflow { section: headers.name_for_error(section), offset, value });
    }
    field.copy_from_slice(&endian.put_u32(value as u32));
    Ok(())
}

fn field_range(length: usize, offset: u64, width: usize) -> Option<core::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(width)?;
    (end <= length).then_some(start..end)
}
