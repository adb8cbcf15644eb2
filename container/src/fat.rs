//! Fat files, which contain one file per architecture, and Apple's names of architectures.

use std::borrow::Cow;

use cfipack_format::widen::ToU64;
use object::elf::{ELFDATA2MSB, ELFMAG, Machine};
use object::macho::{self, CpuSubtype, CpuType, FatArch32, FatArch64, FatHeader};
use object::read::macho::{FatArch, MachOFatFile};
use object::{Endian as _, Endianness};

use crate::elf::headers::arch_of;
use crate::elf::machine;
use crate::error::Error;

/// The file of one architecture inside a fat file.
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    /// The architecture's name as Apple's tools print it, for example `arm64e`.
    pub name: Cow<'static, str>,
    /// The bytes of the file.
    pub bytes: &'a [u8],
}

/// Returns whether a file starts with the magic of a fat file, of either width.
pub fn has_magic(bytes: &[u8]) -> bool {
    let magics = [macho::FAT_MAGIC, macho::FAT_MAGIC_64];
    bytes.first_chunk().is_some_and(|magic| magics.contains(&u32::from_be_bytes(*magic)))
}

/// Returns the slices of a fat file in file order, or `None` if the file is not a fat file.
pub fn slices(bytes: &[u8]) -> Result<Option<Vec<Slice<'_>>>, Error> {
    match bytes.first_chunk().map(|magic| u32::from_be_bytes(*magic)) {
        Some(macho::FAT_MAGIC) => read::<FatArch32>(bytes).map(Some),
        Some(macho::FAT_MAGIC_64) => read::<FatArch64>(bytes).map(Some),
        _ => Ok(None),
    }
}

/// Returns the slices of a fat file with entries of type `Arch`.
///
/// # Errors
/// Fails if the fat header is damaged or empty, or if the slices overlap or end beyond the file.
pub fn read<Arch: FatArch>(bytes: &[u8]) -> Result<Vec<Slice<'_>>, Error> {
    let file = MachOFatFile::<Arch>::parse(bytes).map_err(|_| Error::Table {
        what: "fat header",
        offset: 0,
        value: bytes.len().to_u64(),
    })?;
    if file.arches().is_empty() {
        return Err(Error::Table { what: "fat header", offset: 4, value: 0 });
    }
    let mut slices = Vec::new();
    // Slices may overlap. Without this limit, a small file with many slices would give us many times its size.
    let mut room = bytes.len().to_u64();
    for (i, arch) in file.arches().iter().enumerate() {
        let (_, size) = arch.file_range();
        let entry = size_of::<FatHeader>() + i * size_of::<Arch>();
        let damaged = Error::Table { what: "slice of a fat file", offset: entry.to_u64(), value: size };
        room = room.checked_sub(size).ok_or(damaged)?;
        let name = name(arch.cputype(), arch.cpusubtype());
        slices.push(Slice { name, bytes: arch.data(bytes).map_err(|_| damaged)? });
    }
    Ok(slices)
}

/// Returns the architecture's name from the header of a Mach-O or ELF file, or `None` for another file.
pub fn arch(bytes: &[u8]) -> Option<Cow<'static, str>> {
    mach_o_arch(bytes).or_else(|| elf_arch(bytes))
}

fn elf_arch(bytes: &[u8]) -> Option<Cow<'static, str>> {
    let is_big = *bytes.strip_prefix(&ELFMAG)?.get(1)? == ELFDATA2MSB.0;
    let endian = if is_big { Endianness::Big } else { Endianness::Little };
    let machine = endian.read_u16(*bytes.get(18..)?.first_chunk()?);
    Some(match arch_of(Machine(machine), endian) {
        Some(arch) => arch.names()[0].into(),
        None => {
            machine::name(Machine(machine)).map_or_else(|| format!("machine-{machine}").into(), Into::into)
        }
    })
}

fn mach_o_arch(bytes: &[u8]) -> Option<Cow<'static, str>> {
    let word = |at: usize| Some(*bytes.get(at..)?.first_chunk()?);
    let number = match u32::from_be_bytes(word(0)?) {
        macho::MH_MAGIC | macho::MH_MAGIC_64 => u32::from_be_bytes,
        macho::MH_CIGAM | macho::MH_CIGAM_64 => u32::from_le_bytes,
        _ => return None,
    };
    Some(name(CpuType(number(word(4)?)), CpuSubtype(number(word(8)?))))
}

fn name(cpu: CpuType, subtype: CpuSubtype) -> Cow<'static, str> {
    // The top byte contains flags.
    Cow::Borrowed(match (cpu, subtype.0 & 0x00ff_ffff) {
        (macho::CPU_TYPE_X86_64, 8) => "x86_64h",
        (macho::CPU_TYPE_X86_64, _) => "x86_64",
        (macho::CPU_TYPE_X86, _) => "i386",
        (macho::CPU_TYPE_ARM64, 2) => "arm64e",
        // llvm-mc 23 for `arm64e.x1-apple-macos`.
        (macho::CPU_TYPE_ARM64, 12) => "arm64e.x1",
        (macho::CPU_TYPE_ARM64, _) => "arm64",
        (macho::CPU_TYPE_ARM64_32, _) => "arm64_32",
        (macho::CPU_TYPE_ARM, 9) => "armv7",
        (macho::CPU_TYPE_ARM, 11) => "armv7s",
        (macho::CPU_TYPE_ARM, 12) => "armv7k",
        (macho::CPU_TYPE_POWERPC, _) => "ppc",
        (macho::CPU_TYPE_POWERPC64, _) => "ppc64",
        (CpuType(cpu), subtype) => return Cow::Owned(format!("cpu-{cpu:#x}-{subtype}")),
    })
}
