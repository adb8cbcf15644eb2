//! The rows as text, as `llvm-objdump --unwind-info` 23 prints those of an object.

use core::fmt::{self, Write};

use cfipack_format::SectionOffset;
use cfipack_format::compact_unwind::Entry;

use super::Section;

/// The target of a relocated pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination<'a> {
    /// Name of the symbol, or of the section where no symbol of it lies at or below.
    pub name: &'a str,
    /// Bytes after it.
    pub addend: u64,
}

impl Section<'_> {
    /// Prints the rows, from `Contents of __compact_unwind section:` on, as `llvm-objdump
    /// --unwind-info` 23 does. `destination` returns what the relocated pointer at an offset of the
    /// section refers to; `None` where it has no relocation.
    ///
    /// llvm-objdump names an external relocation's symbol, with the stored value as addend; for
    /// one against a section, the last symbol at or below the stored value if it is of the same
    /// section, else that section. Of several symbols at one address it takes the first in the
    /// symbol table.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn dump<'n>(
        &self,
        out: &mut impl Write,
        destination: impl Fn(SectionOffset) -> Option<Destination<'n>>,
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

fn end_of_line(out: &mut impl Write, destination: Option<Destination<'_>>) -> fmt::Result {
    match destination {
        Some(Destination { name, addend: 0 }) => writeln!(out, "{name}"),
        Some(Destination { name, addend }) => writeln!(out, "{name} + {addend:#x}"),
        None => out.write_char('\n'),
    }
}
