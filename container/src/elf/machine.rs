//! Names of unsupported machines and file types, for error messages.

use object::elf::{self, FileType, Machine};

/// Returns a machine's name.
pub(crate) fn name(machine: Machine) -> Option<&'static str> {
    Some(match machine {
        elf::EM_SPARC | elf::EM_SPARC32PLUS => "SPARC",
        elf::EM_386 => "i386",
        elf::EM_68K => "m68k",
        elf::EM_MIPS => "MIPS",
        elf::EM_PARISC => "PA-RISC",
        elf::EM_PPC => "PowerPC",
        elf::EM_PPC64 => "64-bit PowerPC",
        elf::EM_S390 => "s390",
        elf::EM_ARM => "32-bit ARM",
        elf::EM_SH => "SuperH",
        elf::EM_SPARCV9 => "64-bit SPARC",
        elf::EM_IA_64 => "Itanium",
        elf::EM_X86_64 => "x86-64",
        elf::EM_AVR => "AVR",
        elf::EM_XTENSA => "Xtensa",
        elf::EM_MSP430 => "MSP430",
        elf::EM_HEXAGON => "Hexagon",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_CUDA => "CUDA",
        elf::EM_AMDGPU => "AMD GPU",
        elf::EM_RISCV => "RISC-V",
        elf::EM_BPF => "BPF",
        elf::EM_CSKY => "C-SKY",
        elf::EM_LOONGARCH => "LoongArch",
        elf::EM_ALPHA => "Alpha",
        _ => return None,
    })
}

/// Returns a machine's name if the file is a 32-bit file.
pub(super) fn name_in_32_bits(machine: Machine) -> Option<&'static str> {
    match machine {
        elf::EM_X86_64 => Some("x32"),
        elf::EM_AARCH64 => Some("AArch64 ILP32"),
        elf::EM_ARM => Some("ARM"),
        other => name(other),
    }
}

/// Returns the name of a file type that is neither relocatable nor linked.
pub(super) fn file_type_name(file_type: FileType) -> Option<&'static str> {
    match file_type {
        elf::ET_NONE => Some("none"),
        elf::ET_CORE => Some("core dump"),
        _ => None,
    }
}
