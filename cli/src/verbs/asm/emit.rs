//! Sections from a unit.

use anyhow::{Context as _, bail};
use cfipack_assembler::text::{Format, Unit};
use cfipack_assembler::{Assembly, CompactOptions, Encodings, Linker, ObjectOptions, Target, UnnamedReason};
use cfipack_encoder::compact_unwind;
use cfipack_encoder::sframe::{GasDifference, Layout, Options};
use cfipack_format::sframe::Abi;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Key, Unsupported};

use super::{Arguments, Emit, EncodingsName, LinkerName, Made, Omitted, Relocation, dialect, labels};

/// Makes a section, or an object.
pub(super) fn emit(unit: &Unit, arguments: &Arguments) -> anyhow::Result<Made> {
    let options = arguments.table.get();
    if arguments.emit == Emit::Object {
        return object(unit, options, arguments);
    }
    let assembly = unit.assembly(dialect(unit))?;
    match arguments.emit {
        Emit::EhFrame => eh_frame(unit, &assembly),
        Emit::CompactUnwind => compact_unwind(unit, &assembly, arguments.encodings),
        Emit::Sframe | Emit::Object => sframe(unit, &assembly, options),
    }
}

fn omitted(unsupported: &Unsupported) -> Omitted {
    let Unsupported { function, reason, .. } = unsupported;
    Omitted { function: function.0.to_usize(), reason: reason.name(), text: reason.to_string() }
}

fn sframe(unit: &Unit, assembly: &Assembly, options: Options) -> anyhow::Result<Made> {
    if unit.format == Format::MachO {
        bail!(".sframe is for ELF files");
    }
    let made = assembly.sframe(options)?;
    let mut bytes = vec![0; made.section.relocatable_len()];
    made.section.write_relocatable(&mut bytes)?;
    let abi = Abi::for_arch(unit.arch).context(".sframe is not defined for the architecture")?;
    let kind = abi.start_relocation(options.version).name;
    let labels = labels(unit);
    let relocations = made.section.start_fields().map(|field| {
        let target = Target::Function(field.function);
        Relocation::new((unit, &labels), field.field.0, kind.to_owned(), target, field.offset as i64)
    });
    Ok(Made {
        section: ".sframe",
        bytes,
        relocations: relocations.collect(),
        omitted: made.omitted.iter().map(omitted).collect(),
        gas_differences: gas_differences(assembly, options),
        is_incomplete: false,
    })
}

/// The functions of which gas writes another table than layout `gnu` has.
fn gas_differences(assembly: &Assembly, options: Options) -> Vec<(Key, GasDifference)> {
    match options.layout {
        Layout::Gnu => assembly.gas_differences(),
        _ => Vec::new(),
    }
}

fn eh_frame(unit: &Unit, assembly: &Assembly) -> anyhow::Result<Made> {
    let frames = assembly.eh_frame()?;
    let labels = labels(unit);
    let relocations = frames.relocations().iter().map(|relocation| {
        let kind = match relocation.elf_type(unit.arch) {
            Some(kind) if unit.format == Format::Elf => kind.name.to_owned(),
            _ => format!("{} bytes", relocation.size),
        };
        Relocation::new((unit, &labels), relocation.offset.0, kind, relocation.target, relocation.addend)
    });
    Ok(Made {
        section: if unit.format == Format::MachO { "__eh_frame" } else { ".eh_frame" },
        bytes: frames.as_bytes().to_vec(),
        relocations: relocations.collect(),
        omitted: Vec::new(),
        gas_differences: Vec::new(),
        is_incomplete: false,
    })
}

fn compact_unwind(unit: &Unit, assembly: &Assembly, encodings: EncodingsName) -> anyhow::Result<Made> {
    if unit.format != Format::MachO {
        bail!("__compact_unwind is for Mach-O files (--format mach-o)");
    }
    let encodings = match encodings {
        EncodingsName::Checked => Encodings::Checked,
        EncodingsName::LlvmMc => Encodings::LlvmMc,
    };
    let is_canonical =
        |name: &&String| matches!(name.as_str(), "___gxx_personality_v0" | "___objc_personality_v0");
    let names = unit.symbols.iter().enumerate().filter(|(_, name)| is_canonical(name));
    let canonical: Vec<_> = names.map(|(key, _)| Key(key.to_u64())).collect();
    let options = CompactOptions::new().with_encodings(encodings).with_canonical_personalities(&canonical);
    let place = |section: usize, address| compact_unwind::RelocationTarget::Section {
        number: u8::try_from(section + 1).unwrap_or(u8::MAX),
        address,
    };
    if unit.sections.len() >= usize::from(u8::MAX) {
        bail!("a Mach-O object has 255 sections at most");
    }
    let labels = labels(unit);
    // Symbols are known by their places in the unit.
    let target_of = |target| match target {
        Target::Function(key) => {
            let function = &unit.functions[key.0.to_usize()];
            place(function.section, function.offset)
        }
        Target::Personality(key) | Target::Lsda(key) => {
            match labels.get(unit.symbols[key.0.to_usize()].as_str()) {
                Some(label) if !label.is_global => place(label.section, label.offset),
                _ => compact_unwind::RelocationTarget::Symbol { number: key.0 as u32 },
            }
        }
        _ => place(0, 0),
    };
    let made = assembly.compact_unwind(options, |_| None, target_of)?;
    let relocations = made.section.relocations().map(|relocation| {
        let (symbol, section, addend) = match relocation.target {
            compact_unwind::RelocationTarget::Section { number, address } => {
                (None, Some(usize::from(number) - 1), address as i64)
            }
            compact_unwind::RelocationTarget::Symbol { number } => {
                (unit.symbols.get(number.to_usize()).cloned(), None, 0)
            }
        };
        let kind = format!("{} bytes", relocation.size);
        Relocation { offset: relocation.offset.to_usize(), kind, symbol, section, addend }
    });
    Ok(Made {
        section: "__compact_unwind",
        bytes: made.section.as_bytes().to_vec(),
        relocations: relocations.collect(),
        omitted: made.in_dwarf_mode.iter().map(omitted).collect(),
        gas_differences: Vec::new(),
        is_incomplete: false,
    })
}

fn object(unit: &Unit, sframe: Options, arguments: &Arguments) -> anyhow::Result<Made> {
    let mut options = ObjectOptions::new(sframe).with_eh_frame(arguments.with_eh_frame);
    if arguments.linker == LinkerName::Lld {
        options = options.with_linker(Linker::Lld);
    }
    let made = unit.object(options).context("--emit object")?;
    let unnamed = made.unnamed.iter().map(|unnamed| Omitted {
        function: unnamed.function.0.to_usize(),
        reason: match unnamed.reason {
            UnnamedReason::NoGlobalSymbol => "no-global-symbol",
            UnnamedReason::Comdat => "comdat",
            _ => "exception-table",
        },
        text: unnamed.reason.to_string(),
    });
    let omitted: Vec<_> = unnamed.chain(made.omitted.iter().map(omitted)).collect();
    let is_incomplete = !made.unnamed.is_empty();
    let gas_differences = gas_differences(&unit.assembly(dialect(unit))?, sframe);
    let (section, relocations) = ("object", Vec::new());
    Ok(Made { section, bytes: made.bytes, relocations, omitted, gas_differences, is_incomplete })
}
