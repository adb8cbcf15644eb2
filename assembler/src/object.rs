//! A relocatable object with tables for code that is in another object.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use cfipack_format::elf::RelocationType;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, Endian, Key, Unsupported};
use object::elf::{self, SectionFlags as ElfFlags, SectionType};
use object::write::{Object as Writer, Relocation, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionFlags, SectionKind, SymbolFlags,
    SymbolKind, SymbolScope,
};

use crate::Dialect;
use crate::assembly::{Assembly, AssemblyError};
use crate::call_frames::{self, Target};
use crate::encoder::sframe::Options;
use crate::text::{Format, Label, Unit};

/// Options of an object.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ObjectOptions {
    /// Options of its `.sframe`.
    pub sframe: Options,
    /// True if it has a `.eh_frame` too.
    pub eh_frame: bool,
    /// The linker that puts it beside the code.
    pub linker: Linker,
}

/// A linker, which decides what an object of tables alone must look like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Linker {
    /// GNU ld: the object is joined with the code's by `ld -r`, and that is linked. A link drops entries of `.sframe` whose
    /// function another object defines, and `ld -r` unties them; of a section whose name only begins with `.sframe.`
    /// it keeps them, and the link of what `ld -r` made takes that as `.sframe`. Measured with 2.47.
    #[default]
    Gnu,
    /// ld.lld, which takes the object in the link itself and puts tables of several objects one after another.
    Lld,
}

impl ObjectOptions {
    /// A `.sframe` alone.
    pub const fn new(sframe: Options) -> Self {
        Self { sframe, eh_frame: false, linker: Linker::Gnu }
    }

    /// Sets whether there is a `.eh_frame` too, for code whose own object has none.
    #[must_use]
    pub const fn with_eh_frame(self, eh_frame: bool) -> Self {
        Self { eh_frame, ..self }
    }

    /// Sets the linker.
    pub const fn with_linker(self, linker: Linker) -> Self {
        Self { linker, ..self }
    }
}

/// An object, and what it omits.
#[derive(Clone, Debug)]
pub struct TablesObject {
    /// The object.
    pub bytes: Vec<u8>,
    /// The functions that other objects have no symbol for.
    pub unnamed: Vec<Unnamed>,
    /// The functions that `.sframe` does not represent, and why.
    pub omitted: Vec<Unsupported>,
}

/// A function that another object cannot refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unnamed {
    /// The function.
    pub function: Key,
    /// The reason.
    pub reason: UnnamedReason,
}

/// The reason why another object cannot refer to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UnnamedReason {
    /// The section has no global symbol.
    NoGlobalSymbol,
    /// The section is in a COMDAT group: the linker may keep another object's code under the same symbol.
    Comdat,
    /// No global symbol leads to its personality or LSDA: it is not in `.eh_frame`.
    ExceptionTable,
}

/// The reason why there is no object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ObjectError {
    /// A section cannot be made.
    Assembly(AssemblyError),
    /// The rows of a Mach-O object's `__compact_unwind` are about code of the same object: ld64.lld 23 drops others.
    MachO,
    /// An architecture without a relocation for the fields.
    Architecture {
        /// The architecture.
        arch: Arch,
    },
    /// The object is too large for its format.
    Format,
}

/// A symbol that other objects see, and bytes after it.
type Place<'u> = (&'u str, i64);

/// Global symbols by where they are.
struct Symbols<'u> {
    unit: &'u Unit,
    /// Symbols by place; those whose addresses no other module can take over come first.
    by_place: BTreeMap<(usize, u64), &'u str>,
    by_name: BTreeMap<&'u str, &'u Label>,
}

impl<'u> Symbols<'u> {
    fn new(unit: &'u Unit) -> Self {
        let mut by_place = BTreeMap::new();
        let mut has_hidden = alloc::vec![false; unit.sections.len()];
        for label in &unit.labels {
            has_hidden[label.section] |= label.is_own;
        }
        for label in unit.labels.iter().filter(|label| label.is_global) {
            // One that another module may define makes a text relocation in a shared object.
            if label.is_own || !has_hidden[label.section] {
                by_place.entry((label.section, label.offset)).or_insert(label.name.as_str());
            }
        }
        let labels = unit.labels.iter().map(|label| (label.name.as_str(), label));
        Self { unit, by_place, by_name: labels.collect() }
    }

    /// The symbol before a place, else the one after it.
    fn near(&self, (section, offset): (usize, u64)) -> Option<Place<'u>> {
        let before = self.by_place.range((section, 0)..=(section, offset)).next_back();
        let after = || self.by_place.range((section, offset)..=(section, u64::MAX)).next();
        let (&(_, at), &name) = before.or_else(after)?;
        Some((name, offset.wrapping_sub(at) as i64))
    }

    fn function(&self, key: Key) -> Result<Place<'u>, UnnamedReason> {
        let function = &self.unit.functions[key.0.to_usize()];
        if self.unit.sections[function.section].group.is_some() {
            return Err(UnnamedReason::Comdat);
        }
        self.near((function.section, function.offset)).ok_or(UnnamedReason::NoGlobalSymbol)
    }

    /// Finds the place of a symbol that directives name: its own name, if other objects know it.
    fn named(&self, key: Key) -> Option<Place<'u>> {
        let name = self.unit.symbols[key.0.to_usize()].as_str();
        match self.by_name.get(name) {
            Some(label) if !label.is_global => self.near((label.section, label.offset)),
            _ => Some((name, 0)),
        }
    }

    fn target(&self, target: Target) -> Option<Place<'u>> {
        match target {
            Target::Function(key) => self.function(key).ok(),
            Target::Personality(key) | Target::Lsda(key) => self.named(key),
            Target::Section => None,
        }
    }
}

impl Unit {
    /// A relocatable ELF object that has only tables, to link beside the object that the text's assembler makes ([`Linker`] says how). A field
    /// leads to a global symbol of that object in the function's own section (`.globl`, `.weak`), plus the distance: the last
    /// symbol before the function or the first after it, of hidden and protected ones if the section has any.
    /// A function whose section has none, and one in a COMDAT group, is omitted.
    ///
    /// # Errors
    /// The format or the architecture has no such object.
    pub fn object(&self, options: ObjectOptions) -> Result<TablesObject, ObjectError> {
        if self.format == Format::MachO {
            return Err(ObjectError::MachO);
        }
        let symbols = Symbols::new(self);
        let arch = self.arch;
        let (mut for_sframe, mut for_eh_frame) = (Assembly::new(arch), Assembly::new(arch));
        let mut unnamed = Vec::new();
        for (index, function) in self.functions.iter().enumerate() {
            let key = Key(index.to_u64());
            if let Err(reason) = symbols.function(key) {
                unnamed.push(Unnamed { function: key, reason });
                continue;
            }
            for_sframe.push(key, &function.directives).map_err(ObjectError::Assembly)?;
            let frame = function.directives.frame();
            let pointers = [frame.personality, frame.lsda].into_iter().flatten();
            if !options.eh_frame {
            } else if pointers.into_iter().all(|(_, key)| symbols.named(key).is_some()) {
                for_eh_frame.push(key, &function.directives).map_err(ObjectError::Assembly)?;
            } else {
                unnamed.push(Unnamed { function: key, reason: UnnamedReason::ExceptionTable });
            }
        }
        debug_assert_eq!(for_sframe.dialect, Dialect::Gas);
        let mut object = Object::new(arch, &symbols)?;
        if options.eh_frame {
            object.eh_frame(&for_eh_frame)?;
        }
        let omitted = object.sframe(&for_sframe, &options)?;
        object.empty_stack_note();
        let bytes = object.writer.write().map_err(|_| ObjectError::Format)?;
        Ok(TablesObject { bytes, unnamed, omitted })
    }
}

/// An object that is being made.
struct Object<'a, 'u> {
    arch: Arch,
    symbols: &'a Symbols<'u>,
    writer: Writer<'a>,
    undefined: BTreeMap<&'u str, SymbolId>,
}

impl<'a, 'u> Object<'a, 'u> {
    fn new(arch: Arch, symbols: &'a Symbols<'u>) -> Result<Self, ObjectError> {
        let architecture = match arch {
            Arch::Amd64 => Architecture::X86_64,
            Arch::Aarch64 | Arch::Aarch64Be => Architecture::Aarch64,
            Arch::S390x => Architecture::S390x,
            Arch::I386 | Arch::Arm64_32 | Arch::Riscv64 => return Err(ObjectError::Architecture { arch }),
        };
        let endian = match arch.endian() {
            Endian::Little => Endianness::Little,
            Endian::Big => Endianness::Big,
        };
        let writer = Writer::new(BinaryFormat::Elf, architecture, endian);
        Ok(Self { arch, symbols, writer, undefined: BTreeMap::new() })
    }

    fn section(&mut self, name: &str, kind: SectionType, bytes: Vec<u8>) -> object::write::SectionId {
        let id = self.writer.add_section(Vec::new(), name.into(), SectionKind::ReadOnlyData);
        let section = self.writer.section_mut(id);
        section.flags = SectionFlags::Elf { sh_type: kind, sh_flags: elf::SHF_ALLOC };
        section.set_data(bytes, 8);
        id
    }

    fn relocate(
        &mut self,
        section: object::write::SectionId,
        offset: usize,
        kind: RelocationType,
        (name, addend): Place<'u>,
    ) -> Result<(), ObjectError> {
        let writer = &mut self.writer;
        let symbol = *self.undefined.entry(name).or_insert_with(|| {
            writer.add_symbol(Symbol {
                name: name.into(),
                value: 0,
                size: 0,
                kind: SymbolKind::Unknown,
                scope: SymbolScope::Unknown,
                weak: false,
                section: SymbolSection::Undefined,
                flags: SymbolFlags::None,
            })
        });
        let flags = RelocationFlags::Elf { r_type: elf::RelocationType(kind.number) };
        let relocation = Relocation { offset: offset.to_u64(), symbol, addend, flags };
        self.writer.add_relocation(section, relocation).map_err(|_| ObjectError::Format)
    }

    fn eh_frame(&mut self, assembly: &Assembly) -> Result<(), ObjectError> {
        let frames = assembly.eh_frame().map_err(ObjectError::Assembly)?;
        let section = self.section(".eh_frame", elf::SHT_PROGBITS, frames.as_bytes().to_vec());
        self.relocate_all(section, frames.relocations().iter().copied())
    }

    fn relocate_all(
        &mut self,
        section: object::write::SectionId,
        relocations: impl Iterator<Item = call_frames::Relocation>,
    ) -> Result<(), ObjectError> {
        for relocation in relocations {
            let kind = relocation.elf_type(self.arch).ok_or(ObjectError::Architecture { arch: self.arch })?;
            if let Some((name, offset)) = self.symbols.target(relocation.target) {
                let place = (name, offset.wrapping_add(relocation.addend));
                self.relocate(section, relocation.offset.0, kind, place)?;
            }
        }
        Ok(())
    }

    fn sframe(
        &mut self,
        assembly: &Assembly,
        options: &ObjectOptions,
    ) -> Result<Vec<Unsupported>, ObjectError> {
        let made = assembly.sframe(options.sframe).map_err(ObjectError::Assembly)?;
        let mut bytes = alloc::vec![0; made.section.relocatable_len()];
        made.section.write_relocatable(&mut bytes).map_err(|_| ObjectError::Format)?;
        let section = self.section(
            if options.linker == Linker::Gnu { ".sframe.tables" } else { ".sframe" },
            elf::SHT_GNU_SFRAME,
            bytes,
        );
        self.relocate_all(section, made.relocations())?;
        Ok(made.omitted)
    }

    /// Says that the object needs no executable stack.
    fn empty_stack_note(&mut self) {
        let name = String::from(".note.GNU-stack").into_bytes();
        let id = self.writer.add_section(Vec::new(), name, SectionKind::Note);
        self.writer.section_mut(id).flags =
            SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: ElfFlags(0) };
    }
}

impl fmt::Display for UnnamedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoGlobalSymbol => "its section has no global symbol (add .globl and .hidden)",
            Self::Comdat => "its section is in a COMDAT group, of which a linker may keep another object's",
            Self::ExceptionTable => "no global symbol leads to its personality or LSDA",
        })
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assembly(error) => error.fmt(f),
            Self::MachO => f.write_str(
                "Mach-O linkers drop rows about code of another object: no object can have them alone",
            ),
            Self::Architecture { arch } => write!(f, "no objects with these sections for {arch}"),
            Self::Format => f.write_str("the sections are too large for an object"),
        }
    }
}

impl core::error::Error for ObjectError {}
