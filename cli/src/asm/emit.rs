//! Sections from a unit.

use anyhow::bail;
use cfipack_assembler::encoder::sframe::Options;
use cfipack_assembler::text::{Format, Unit};
use cfipack_assembler::{Assembly, Target};
use cfipack_format::Arch;
use cfipack_format::sframe::Version;

use super::{Emit, Made, Relocation, dialect};

/// Makes a section.
pub(super) fn emit(unit: &Unit, what: Emit, options: Options) -> anyhow::Result<Made> {
    let assembly = unit.assembly(dialect(unit))?;
    match what {
        Emit::Sframe => sframe(unit, &assembly, options),
        Emit::EhFrame => eh_frame(unit, &assembly),
        Emit::CompactUnwind => bail!("--emit compact-unwind: not for this text"),
    }
}

fn sframe(unit: &Unit, assembly: &Assembly, options: Options) -> anyhow::Result<Made> {
    if unit.format == Format::MachO {
        bail!(".sframe is for ELF files");
    }
    let made = assembly.sframe(options)?;
    let mut bytes = vec![0; made.section.relocatable_len()];
    made.section.write_relocatable(&mut bytes)?;
    let kind = start_relocation(unit.arch, options.version);
    let relocations = made.section.start_fields().map(|field| Relocation {
        offset: field.field.0,
        kind: kind.to_owned(),
        target: Target::Function(field.function),
        addend: field.offset as i64,
    });
    Ok(Made { section: ".sframe", bytes, relocations: relocations.collect(), omitted: made.omitted })
}

fn eh_frame(unit: &Unit, assembly: &Assembly) -> anyhow::Result<Made> {
    let frames = assembly.eh_frame()?;
    let relocations = frames.relocations().iter().map(|relocation| Relocation {
        offset: relocation.offset.0,
        kind: relocation.elf_type(unit.arch).map_or_else(
            || format!("{} bytes", relocation.size),
            |number| relocation_name(unit.arch, number).to_owned(),
        ),
        target: relocation.target,
        addend: relocation.addend,
    });
    let (section, relocations) =
        (if unit.format == Format::MachO { "__eh_frame" } else { ".eh_frame" }, relocations.collect());
    Ok(Made { section, bytes: frames.as_bytes().to_vec(), relocations, omitted: Vec::new() })
}

/// The relocation of a start field of `.sframe`, which is relative to itself, as gas writes it.
fn start_relocation(arch: Arch, version: Version) -> &'static str {
    match (arch, version) {
        (Arch::S390x, Version::V3) => "R_390_PC64",
        (Arch::S390x, _) => "R_390_PC32",
        (Arch::Aarch64 | Arch::Aarch64Be, Version::V3) => "R_AARCH64_PREL64",
        (Arch::Aarch64 | Arch::Aarch64Be, _) => "R_AARCH64_PREL32",
        (_, Version::V3) => "R_X86_64_PC64",
        (_, _) => "R_X86_64_PC32",
    }
}

/// The name of a relocation that `.eh_frame` has.
fn relocation_name(arch: Arch, number: u32) -> &'static str {
    match (arch, number) {
        (Arch::Amd64, 1) => "R_X86_64_64",
        (Arch::Amd64, 2) => "R_X86_64_PC32",
        (Arch::Amd64, 10) => "R_X86_64_32",
        (Arch::Amd64, 11) => "R_X86_64_32S",
        (Arch::Amd64, 12) => "R_X86_64_16",
        (Arch::Amd64, 13) => "R_X86_64_PC16",
        (Arch::Amd64, _) => "R_X86_64_PC64",
        (Arch::S390x, 3) => "R_390_16",
        (Arch::S390x, 4) => "R_390_32",
        (Arch::S390x, 5) => "R_390_PC32",
        (Arch::S390x, 16) => "R_390_PC16",
        (Arch::S390x, 22) => "R_390_64",
        (Arch::S390x, _) => "R_390_PC64",
        (_, 257) => "R_AARCH64_ABS64",
        (_, 258) => "R_AARCH64_ABS32",
        (_, 259) => "R_AARCH64_ABS16",
        (_, 260) => "R_AARCH64_PREL64",
        (_, 261) => "R_AARCH64_PREL32",
        (_, _) => "R_AARCH64_PREL16",
    }
}
