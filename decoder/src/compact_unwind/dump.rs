//! Prints the rows as `llvm-objdump --unwind-info` 23 prints them for an object.

use core::fmt::{self, Write};

use cfipack_format::SectionOffset;
use cfipack_format::compact_unwind::Entry;

use super::Section;

/// The target of a relocated pointer: a name and an offset. `N` prints the name, for example with its control characters
/// escaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination<N> {
    /// The name of the symbol, or of the section if no symbol of the section is at or below the target.
    pub name: N,
    /// The offset from the name, in bytes.
    pub addend: u64,
}

impl Section<'_> {
    /// Prints the rows as `llvm-objdump --unwind-info` 23 does, starting with the line `Contents of
    /// __compact_unwind section:`. `destination` returns the target of the relocated pointer at an offset of
    /// the section, or `None` if the pointer has no relocation.
    ///
    /// For an external relocation, llvm-objdump prints the symbol, with the stored value as the addend. For a
    /// relocation against a section, it prints the last symbol at or below the stored value if the symbol is in
    /// the same section, and otherwise the section. If several symbols have the same address, it takes the
    /// first in the symbol table.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn dump<N: fmt::Display>(
        &self,
        out: &mut impl Write,
        destination: impl Fn(SectionOffset) -> Option<Destination<N>>,
    ) -> fmt::Result {
        let pointer_size = self.pointer_size();
        out.write_str("Contents of __compact_unwind section:\n")?;
        for (offset, entry) in self.entries() {
            let at = |field: usize| destination(SectionOffset(offset.0 + field));
            writeln!(out, "  Entry at offset {offset}:")?;
            write!(out, "    start:                {:#x} ", entry.function)?;
            end_of_line(out, at(Entry::FUNCTION_AT))?;
            writeln!(out, "    length:               {:#x}", entry.length)?;
            writeln!(out, "    compact encoding:     {}", entry.encoding)?;
            if let Some(personality) = at(Entry::personality_at(pointer_size)) {
                write!(out, "    personality function: {:#x} ", entry.personality)?;
                end_of_line(out, Some(personality))?;
            }
            if let Some(lsda) = at(Entry::lsda_at(pointer_size)) {
                write!(out, "    LSDA:                 {:#x} ", entry.lsda)?;
                end_of_line(out, Some(lsda))?;
            }
        }
        Ok(())
    }
}

fn end_of_line(out: &mut impl Write, destination: Option<Destination<impl fmt::Display>>) -> fmt::Result {
    match destination {
        Some(Destination { name, addend: 0 }) => writeln!(out, "{name}"),
        Some(Destination { name, addend }) => writeln!(out, "{name} + {addend:#x}"),
        None => out.write_char('\n'),
    }
}
