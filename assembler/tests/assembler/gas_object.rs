//! Comparison of assembler text with the object that gas made of it.

use cfipack_assembler::text::Unit;
use cfipack_assembler::{Assembly, CallFrames, Dialect, Target};
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::Key;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};

/// An object that gas made.
pub struct Object(pub Vec<u8>);

/// A relocation: where, and to which section or undefined symbol, and how far into it.
pub type Reference = (u64, String, i64);

impl Object {
    /// Compares what a text says with what gas made of it: `.eh_frame`, `.debug_frame` and `.sframe`, as far as there
    /// are, with their relocations.
    pub fn compare(&self, unit: &Unit) -> Result<(), String> {
        let assembly = unit.assembly(Dialect::Gas).map_err(|error| error.to_string())?;
        self.compare_frames(".eh_frame", unit, &assembly.eh_frame().map_err(|error| error.to_string())?)?;
        self.compare_frames(
            ".debug_frame",
            unit,
            &assembly.debug_frame().map_err(|error| error.to_string())?,
        )?;
        self.compare_sframe(unit, &assembly)
    }

    fn compare_frames(&self, name: &str, unit: &Unit, ours: &CallFrames) -> Result<(), String> {
        let sections = unit.cfi_sections;
        let is_asked_for = if name == ".eh_frame" { sections.eh_frame } else { sections.debug_frame };
        let Some((theirs, references)) = self.section(name) else {
            let is_missing = is_asked_for && !unit.functions.is_empty();
            return if is_missing { Err(format!("gas made no {name}")) } else { Ok(()) };
        };
        same_bytes(name, ours.as_bytes(), &theirs)?;
        let ours = ours.relocations().iter().map(|relocation| {
            let (place, offset) = target(unit, relocation.target, name);
            (relocation.offset.0 as u64, place, offset + relocation.addend)
        });
        same_references(name, ours.collect(), references)
    }

    fn compare_sframe(&self, unit: &Unit, assembly: &Assembly) -> Result<(), String> {
        let Some((theirs, references)) = self.section(".sframe") else { return Ok(()) };
        let options = Options::new().with_layout(Layout::Gnu);
        let section = assembly.sframe(options).map_err(|error| error.to_string())?.section;
        let mut ours = vec![0; section.relocatable_len()];
        section.write_relocatable(&mut ours).map_err(|error| error.to_string())?;
        same_bytes(".sframe", &ours, &theirs)?;
        let ours = section.start_fields().map(|start| {
            let (place, offset) = target(unit, Target::Function(start.function), ".sframe");
            (start.field.0 as u64, place, offset + start.offset as i64)
        });
        same_references(".sframe", ours.collect(), references)
    }

    /// The bytes of a section, and what its fields lead to.
    fn section(&self, name: &str) -> Option<(Vec<u8>, Vec<Reference>)> {
        let file = ElfFile64::<object::Endianness>::parse(&*self.0).unwrap();
        let section = file.section_by_name(name)?;
        let references = section.relocations().map(|(offset, relocation)| {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("no symbol") };
            let symbol = file.symbol_by_index(symbol).unwrap();
            match symbol.section_index() {
                Some(index) => {
                    let section = file.section_by_index(index).unwrap().name().unwrap().to_owned();
                    (offset, section, symbol.address() as i64 + relocation.addend())
                }
                None => (offset, symbol.name().unwrap().to_owned(), relocation.addend()),
            }
        });
        let mut references: Vec<_> = references.collect();
        references.sort();
        Some((section.data().unwrap().to_vec(), references))
    }
}

fn same_bytes(name: &str, ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
    Err(format!("{name}: {} bytes, theirs {}; they differ at {at:#x}", ours.len(), theirs.len()))
}

fn same_references(name: &str, mut ours: Vec<Reference>, theirs: Vec<Reference>) -> Result<(), String> {
    ours.sort();
    match ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
        Some((ours, theirs)) => Err(format!("{name}: {ours:?}, theirs {theirs:?}")),
        None if ours.len() != theirs.len() => {
            Err(format!("{name}: {} relocations, theirs {}", ours.len(), theirs.len()))
        }
        None => Ok(()),
    }
}

/// The section or symbol that a field leads to, and the offset in it.
fn target(unit: &Unit, target: Target, section: &str) -> (String, i64) {
    match target {
        Target::Function(Key(key)) => {
            let function = &unit.functions[key as usize];
            (unit.sections[function.section].name.clone(), function.offset as i64)
        }
        Target::Personality(Key(key)) | Target::Lsda(Key(key)) => {
            let name = &unit.symbols[key as usize];
            match unit.label(name) {
                Some(label) => (unit.sections[label.section].name.clone(), label.offset as i64),
                None => (name.clone(), 0),
            }
        }
        _ => (section.to_owned(), 0),
    }
}
