//! Assembles a text, and compares the object with ours.

use std::collections::BTreeMap;

use cfipack_assembler::{Assembly, AssemblyError, CallFrames, Dialect, Relocation, Target};
use cfipack_format::{Arch, Key};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget};

use super::{Source, instrument};
use crate::reference::Tools;

/// An object that an assembler made of a text.
#[derive(Debug)]
pub struct Object {
    /// The meaning of the text.
    pub source: Source,
    /// The architecture.
    pub arch: Arch,
    /// The object's bytes.
    pub bytes: Vec<u8>,
    symbols: BTreeMap<String, (Option<usize>, u64)>,
}

/// A relocation: place, type, the name of the target's section or undefined symbol, and an offset.
pub type Reference = (u64, u32, String, i64);

impl Object {
    /// Assembles a text. An error has the assembler's output.
    pub fn assemble(tools: &Tools, text: &str, arch: Arch, command: &[&str]) -> Result<Self, String> {
        tools.write("f.s", instrument(text));
        let output = tools.run(&[command, &["f.s", "-o", "f.o"]].concat());
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let bytes = tools.read("f.o");
        let symbols = symbols(&bytes);
        let values = symbols.iter().map(|(name, (_, value))| (name.clone(), *value)).collect();
        Ok(Self { source: Source::parse(text, arch, &values), arch, bytes, symbols })
    }

    /// Returns the text's functions in a dialect of our library, with their numbers as keys. Functions that the library
    /// refuses are returned as errors.
    pub fn assembly(&self, dialect: Dialect) -> (Assembly, Vec<(usize, AssemblyError)>) {
        let mut assembly = Assembly::new(self.arch).with_dialect(dialect);
        let mut errors = Vec::new();
        for (number, function) in self.source.functions.iter().enumerate() {
            if let Err(error) = assembly.push(Key(number as u64), &function.directives) {
                errors.push((number, error));
            }
        }
        (assembly, errors)
    }

    /// Compares a section of ours with the object's: bytes and relocations. The error names the difference.
    pub fn compare(&self, name: &str, ours: &CallFrames) -> Result<(), String> {
        let (bytes, relocations) = self.section(name);
        if ours.as_bytes() != bytes {
            let at = ours.as_bytes().iter().zip(&bytes).take_while(|(ours, theirs)| ours == theirs).count();
            let near = |bytes: &[u8]| {
                format!("{:02x?}", &bytes[at.saturating_sub(24).min(bytes.len())..(at + 40).min(bytes.len())])
            };
            let lengths = format!("{} bytes, theirs {}", ours.len(), bytes.len());
            return Err(format!(
                "{name}: {lengths}; they differ at {at:#x}:\nours   {}\ntheirs {}",
                near(ours.as_bytes()),
                near(&bytes)
            ));
        }
        let references: Vec<_> =
            ours.relocations().iter().map(|relocation| self.reference(name, relocation)).collect();
        let differs = references.iter().zip(&relocations).find(|(ours, theirs)| ours != theirs);
        match differs {
            Some((ours, theirs)) => Err(format!("{name}: relocation {ours:?}, theirs {theirs:?}")),
            None if references.len() != relocations.len() => {
                Err(format!("{name}: {} relocations, theirs {}", references.len(), relocations.len()))
            }
            None => Ok(()),
        }
    }

    /// Returns bytes and relocations of a section, or nothing if it is missing.
    pub fn section(&self, name: &str) -> (Vec<u8>, Vec<Reference>) {
        let file = parse(&self.bytes);
        let Some(section) = file.section_by_name(name) else { return (Vec::new(), Vec::new()) };
        let reference = |(offset, relocation): (u64, object::Relocation)| {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { panic!("no ELF relocation") };
            let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("no symbol") };
            let symbol = file.symbol_by_index(symbol).expect("a symbol");
            let (name, value) = match symbol.section_index() {
                Some(section) => (format!("section {}", section.0), symbol.address() as i64),
                None => (symbol.name().unwrap().to_owned(), 0),
            };
            (offset, r_type.0, name, value + relocation.addend())
        };
        let mut references: Vec<_> = section.relocations().map(reference).collect();
        references.sort();
        (section.data().expect("the section's bytes").to_vec(), references)
    }

    /// Returns where a function starts: the section, as in a [`Reference`], and the offset.
    pub fn start(&self, function: Key) -> (String, i64) {
        self.named(&self.source.functions[function.0 as usize].start)
    }

    fn named(&self, name: &str) -> (String, i64) {
        match self.symbols.get(name) {
            Some((Some(section), value)) => (format!("section {section}"), *value as i64),
            _ => (name.to_owned(), 0),
        }
    }

    /// Converts one of our relocations into a [`Reference`].
    fn reference(&self, section: &str, relocation: &Relocation) -> Reference {
        let (name, value) = match relocation.target {
            Target::Function(function) => self.start(function),
            Target::Personality(Key(symbol)) | Target::Lsda(Key(symbol)) => {
                self.named(&self.source.symbols[symbol as usize])
            }
            Target::Section => {
                let section = parse(&self.bytes).section_by_name(section).expect("the section").index().0;
                (format!("section {section}"), 0)
            }
            target => panic!("{target:?}"),
        };
        let kind = relocation.elf_type(self.arch).expect("a type").number;
        (relocation.offset.0 as u64, kind, name, value + relocation.addend)
    }
}

/// Returns section and value of each symbol.
fn symbols(bytes: &[u8]) -> BTreeMap<String, (Option<usize>, u64)> {
    let file = parse(bytes);
    let symbols = file.symbols().map(|symbol| {
        let section = symbol.section_index().map(|section| section.0);
        (symbol.name().unwrap_or_default().to_owned(), (section, symbol.address()))
    });
    symbols.collect()
}

fn parse(bytes: &[u8]) -> ElfFile64<'_, object::Endianness> {
    ElfFile64::parse(bytes).expect("an ELF object")
}
