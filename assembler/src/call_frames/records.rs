//! CIEs that functions share, and the functions' FDEs.

use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};

use super::cies::{Cies, Properties};
use super::section::{CallFrames, Relocation, Target};
use crate::Dialect;
use crate::assembly::{Assembly, AssemblyError, Function};
use crate::cfi::write::{Cie, Error, Writer, WrittenCie};
use crate::cfi::{PointerEncoding, SectionKind};
use crate::instructions::{MarkKind, alignment};

/// Writes the records of an assembly.
pub(crate) struct Records<'a> {
    assembly: &'a Assembly,
    kind: SectionKind,
    writer: Writer,
    cies: Cies<'a, WrittenCie>,
    relocations: Vec<Relocation>,
    labels: Vec<SectionOffset>,
}

impl<'a> Records<'a> {
    pub(crate) fn new(assembly: &'a Assembly, kind: SectionKind) -> Self {
        let functions = assembly.functions.len();
        // Room for the fields of a record and its padding.
        let capacity = assembly.bytes.len() + functions * 28 + 32;
        let bytes = Vec::with_capacity(capacity);
        let mut writer = Writer::after(kind, assembly.arch, Address(0), bytes);
        if kind == SectionKind::EhFrame {
            writer.alignment = 4;
        }
        let relocations = Vec::with_capacity(functions + 1);
        Self { assembly, kind, writer, cies: Cies::new(), relocations, labels: Vec::new() }
    }

    /// Writes the records of all functions.
    pub(crate) fn write_all(mut self) -> Result<CallFrames, AssemblyError> {
        let assembly = self.assembly;
        if assembly.dialect.is_llvm() {
            let mut functions: Vec<_> = assembly.functions.iter().collect();
            let is_debug_frame = !self.is_eh_frame();
            functions.sort_by_cached_key(|function| {
                let properties = Properties::new(assembly, self.kind, function);
                (is_debug_frame.then_some(properties.return_column), properties)
            });
            self.write(functions)?;
        } else {
            self.write(&assembly.functions)?;
        }
        let Self { kind, writer, relocations, labels, .. } = self;
        let arch = assembly.arch;
        let mut bytes = writer.into_bytes();
        // The relocation has the whole value, so the field is 0.
        for relocation in relocations.iter().filter(|relocation| relocation.target == Target::Section) {
            bytes[relocation.offset.0..][..relocation.size.into()].fill(0);
        }
        Ok(CallFrames { kind, arch, bytes, relocations, labels })
    }

    fn write(&mut self, functions: impl IntoIterator<Item = &'a Function>) -> Result<(), AssemblyError> {
        let mut last = SectionOffset(0);
        for function in functions {
            let result = self.cie(function).and_then(|cie| {
                last = self.writer.offset();
                self.fde(function, cie)
            });
            result.map_err(|error| AssemblyError::Record { function: function.key, error })?;
        }
        // A linker puts the section of another object after this one, and a gap would end the table.
        if self.is_eh_frame() {
            self.align(last);
        }
        Ok(())
    }

    fn is_mach_o(&self) -> bool {
        self.is_eh_frame() && self.assembly.dialect == Dialect::LlvmMachO
    }

    fn is_eh_frame(&self) -> bool {
        self.kind == SectionKind::EhFrame
    }

    /// Finds the CIE of a function, or adds it. Also returns how many bytes of the function's instructions the
    /// CIE has.
    fn cie(&mut self, function: &Function) -> Result<(WrittenCie, usize), Error> {
        let properties = Properties::new(self.assembly, self.kind, function);
        if let Some(found) = self.cies.find(self.assembly, &properties, function) {
            return Ok(found);
        }
        let written = self.new_cie(function, &properties, &self.assembly.bytes[function.leading()])?;
        Ok(self.cies.push(self.assembly, properties, function, written))
    }

    fn new_cie(
        &mut self,
        function: &Function,
        properties: &Properties,
        instructions: &[u8],
    ) -> Result<WrittenCie, Error> {
        let assembly = self.assembly;
        let offset = self.writer.offset();
        let letters = self.letters(properties);
        let (code, data) = alignment(assembly.dialect, assembly.arch);
        let mut cie =
            Cie::new(assembly.arch, instructions).with_augmentation(&letters).with_alignment(code, data);
        cie.return_address = function.frame.return_column.unwrap_or(assembly.arch.return_address());
        if !self.is_eh_frame() && assembly.dialect.is_llvm() {
            cie.version = 4;
        }
        if self.is_eh_frame() {
            cie.lsda_encoding = properties.lsda_encoding.map_or(PointerEncoding::OMITTED, PointerEncoding);
            // Length, id, version, the letters and their zero, three numbers of a byte each, a length, an encoding.
            let field = SectionOffset(offset.0 + 8 + 1 + letters.len() + 1 + 3 + 1 + 1);
            cie.personality = function.frame.personality.map(|(encoding, routine)| {
                let relocation = self.relocation(field, encoding, Target::Personality(routine));
                self.relocations.push(relocation);
                (PointerEncoding(encoding.0), place_of_zero(&relocation))
            });
        }
        cie.fde_encoding = fde_encoding(assembly.dialect);
        self.writer.cie(&cie)
    }

    /// Returns the letters of the augmentation in the order that the assembler writes.
    fn letters(&self, properties: &Properties) -> Vec<u8> {
        let (eh_frame, gas) = (self.is_eh_frame(), self.assembly.dialect == Dialect::Gas);
        let letters = [
            (b'z', eh_frame),
            (b'P', eh_frame && properties.personality.is_some()),
            (b'L', eh_frame && properties.lsda_encoding.is_some()),
            (b'R', eh_frame),
            (b'S', properties.is_signal_frame && !gas),
            (b'B', eh_frame && properties.is_b_key_frame),
            (b'G', eh_frame && properties.is_mte_tagged_frame),
            (b'S', properties.is_signal_frame && gas),
        ];
        letters.into_iter().filter_map(|(letter, has)| has.then_some(letter)).collect()
    }

    fn fde(&mut self, function: &Function, (cie, in_cie): (WrittenCie, usize)) -> Result<(), Error> {
        let assembly = self.assembly;
        let offset = self.writer.offset();
        let pointer = SectionOffset(offset.0 + 4);
        let start = SectionOffset(offset.0 + 8);
        let (encoding, size) = if self.is_eh_frame() {
            let encoding = fde_encoding(assembly.dialect);
            (encoding, if self.is_mach_o() { assembly.arch.pointer_size().into() } else { 4 })
        } else {
            let addend = cie.offset.0 as i64;
            let relocation = self.relocation(pointer, PointerEncoding(0x03), Target::Section);
            self.relocations.push(Relocation { addend, ..relocation });
            (PointerEncoding::ABSOLUTE, assembly.arch.pointer_size().into())
        };
        let start = self.relocation(start, encoding, Target::Function(function.key));
        self.relocations.push(start);
        let lsda = function.frame.lsda.filter(|_| self.is_eh_frame()).map(|(encoding, table)| {
            let field = SectionOffset(start.offset.0 + 2 * size + 1);
            let relocation = self.relocation(field, encoding, Target::Lsda(table));
            self.relocations.push(relocation);
            place_of_zero(&relocation)
        });
        let own = function.instructions.bytes.start + in_cie..function.instructions.bytes.end;
        let instructions = &assembly.bytes[own.clone()];
        self.writer.fde(&cie, place_of_zero(&start), function.size, lsda, instructions)?;
        if self.is_mach_o() {
            self.align(offset);
        }
        if !assembly.marks.is_empty() {
            let fixed = start.offset.0 + 2 * size + usize::from(self.is_eh_frame());
            let lsda_size =
                lsda.map_or(0, |_| usize::from(self.relocations.last().map_or(0, |last| last.size)));
            self.labels_in(function, own, fixed + lsda_size);
        }
        Ok(())
    }

    /// Records the labels among a function's own instructions, which lie at `at` in the section.
    fn labels_in(&mut self, function: &Function, own: Range<usize>, at: usize) {
        let labels = self.assembly.marks_of(function).iter().filter(|mark| mark.kind == MarkKind::Label);
        // A CIE never has an instruction after a label, so the label lies among the FDE's instructions.
        self.labels.extend(labels.map(|mark| SectionOffset(at + mark.at - own.start)));
    }

    fn relocation(&self, offset: SectionOffset, encoding: PointerEncoding, target: Target) -> Relocation {
        let size = match encoding.0 & 0x07 {
            0x02 => 2,
            0x03 => 4,
            0x04 => 8,
            _ => self.assembly.arch.pointer_size(),
        };
        let is_pc_relative = encoding.0 & 0x70 == 0x10;
        let is_signed = encoding.0 & 0x08 != 0;
        Relocation { offset, size, is_pc_relative, is_signed, target, addend: 0 }
    }

    /// Fills the last record, which starts at `last`, up to a multiple of a pointer's size.
    fn align(&mut self, last: SectionOffset) {
        let size = usize::from(self.assembly.arch.pointer_size());
        let padding = self.writer.offset().0.wrapping_neg() % size;
        if padding != 0 {
            self.writer.extend_record(last, padding);
        }
    }
}

/// Returns the encoding of an FDE's start in `.eh_frame`.
fn fde_encoding(dialect: Dialect) -> PointerEncoding {
    match dialect {
        Dialect::Gas | Dialect::Llvm => PointerEncoding::PC_RELATIVE_SIGNED_4,
        // PC-relative, of the size of an address.
        Dialect::LlvmMachO => PointerEncoding(0x10),
    }
}

/// Returns the address for which a field has the value 0 in a section at address 0.
fn place_of_zero(relocation: &Relocation) -> Address {
    Address(if relocation.is_pc_relative { relocation.offset.0.to_u64() } else { 0 })
}
