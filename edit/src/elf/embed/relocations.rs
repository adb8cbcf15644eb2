//! Refuses files with dynamic relocations that refer to moved addresses.

use cfipack_format::Arch;
use cfipack_format::widen::ToU64;
use object::elf;

use super::plan::Moved;
use super::renumber::{R_INFO, RELA_LEN};
use super::source::Source;
use crate::embed_error::EmbedError;

/// The offset of a relocation's addend.
const R_ADDEND: usize = 16;

/// Refuses relocations of moved bytes, and relocated words with moved addresses.
pub(super) fn check(source: &Source<'_>, moved: &[Moved]) -> Result<(), EmbedError> {
    let is_moved = |address: u64| moved.iter().any(|one| one.addresses.contains(&address));
    for (index, section) in source.sections.iter().enumerate() {
        let found = match elf::SectionType(section.kind) {
            _ if !section.has(elf::SHF_ALLOC) => None,
            elf::SHT_RELA => find_rela(source, source.bytes(section.range()), is_moved),
            elf::SHT_RELR => find_relr(source, source.bytes(section.range()), is_moved),
            _ => None,
        };
        if let Some((at, value)) = found {
            let section_name = source.headers.name_for_error(index);
            let offset = section.offset + at.to_u64();
            return Err(EmbedError::Reference { section: section_name, offset, value });
        }
    }
    Ok(())
}

/// Finds the first relocation that refers to a moved address. Returns its place and the address.
fn find_rela(source: &Source<'_>, bytes: &[u8], is_moved: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
    let relative: &[u32] = match source.headers.arch {
        Arch::Amd64 => &[elf::R_X86_64_RELATIVE.0, elf::R_X86_64_IRELATIVE.0, elf::R_X86_64_RELATIVE64.0],
        Arch::Aarch64 | Arch::Aarch64Be => &[elf::R_AARCH64_RELATIVE.0, elf::R_AARCH64_IRELATIVE.0],
        Arch::S390x => &[elf::R_390_RELATIVE.0, elf::R_390_IRELATIVE.0],
        // These architectures have no 64-bit ELF files, or no tables.
        Arch::I386 | Arch::Arm64_32 | Arch::Riscv64 => &[],
    };
    let word = |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |&word| source.endian.u64(word));
    for (number, entry) in bytes.chunks_exact(RELA_LEN).enumerate() {
        let (offset, kind, addend) = (word(entry, 0), word(entry, R_INFO) as u32, word(entry, R_ADDEND));
        if is_moved(offset) {
            return Some((number * RELA_LEN, offset));
        }
        if relative.contains(&kind) && is_moved(addend) {
            return Some((number * RELA_LEN, addend));
        }
    }
    None
}

/// Finds the first relative relocation at a moved address, or with a moved address as its word. Returns its place and
/// the address.
fn find_relr(source: &Source<'_>, bytes: &[u8], is_moved: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
    let loads: Vec<_> = source.loaded().collect();
    let refers = |address: u64| {
        // The segments are in ascending order of address.
        let load = loads[..loads.partition_point(|load| load.address <= address)].last()?;
        if address - load.address >= load.file_size {
            return None;
        }
        let offset = load.offset + (address - load.address);
        let value = source.endian.u64(*source.bytes(offset..offset + 8).first_chunk()?);
        [address, value].into_iter().find(|&value| is_moved(value))
    };
    let mut next = 0_u64;
    for (number, entry) in bytes.chunks_exact(8).enumerate() {
        let entry = entry.first_chunk().map_or(0, |&entry| source.endian.u64(entry));
        let found = if entry & 1 == 0 {
            next = entry.wrapping_add(8);
            refers(entry)
        } else {
            let base = next;
            next = base.wrapping_add(63 * 8);
            let relocated = (1..64).filter(|bit| entry >> bit & 1 != 0);
            relocated.map(|bit| base.wrapping_add((bit - 1) * 8)).find_map(refers)
        };
        if let Some(value) = found {
            return Some((number * 8, value));
        }
    }
    None
}
