//! Units: what a text says.

use alloc::string::String;
use alloc::vec::Vec;

use cfipack_format::widen::ToU64;
use cfipack_format::{Arch, Key};

use super::{Diagnostic, Format};
use crate::assembly::{Assembly, AssemblyError};
use crate::{Dialect, Directives};

/// The functions of a text, and the sections they are in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unit {
    /// The architecture.
    pub arch: Arch,
    /// The file format.
    pub format: Format,
    /// The sections of the text, in the order in which they appear.
    pub sections: Vec<Section>,
    /// The functions, in the order of `.cfi_startproc`. A function's place in the list is its key.
    pub functions: Vec<Function>,
    /// The labels of all sections, but for assembler-local ones that no directive names, in the order of the text.
    pub labels: Vec<Label>,
    /// The symbols that `.cfi_personality` and `.cfi_lsda` name: a symbol's place in the list is its key.
    pub symbols: Vec<String>,
    /// The sections that the last `.cfi_sections` asks for.
    pub cfi_sections: CfiSections,
    /// True if some statement made an odd number of bytes: x86 code does.
    pub has_odd_sizes: bool,
    /// What an assembler warns of, in the order of the text.
    pub warnings: Vec<Diagnostic>,
}

/// A section of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Section {
    /// The name: in Mach-O segment and section with a comma.
    pub name: String,
    /// The signature of the COMDAT group that it is in.
    pub group: Option<String>,
    /// The number of `unique,N`.
    pub unique: Option<String>,
}

/// A function of a text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Function {
    /// The label at its start: one that is a symbol of the object, else any.
    pub name: Option<String>,
    /// The section's place among [`Unit::sections`].
    pub section: usize,
    /// Bytes from the section's start.
    pub offset: u64,
    /// The line of its `.cfi_startproc`, counted from 1.
    pub line: u32,
    /// The size and directives.
    pub directives: Directives,
}

/// A label of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Label {
    /// The name.
    pub name: String,
    /// The section's place among [`Unit::sections`].
    pub section: usize,
    /// Bytes from the section's start.
    pub offset: u64,
    /// True if other objects see it (`.globl`, `.weak`).
    pub is_global: bool,
    /// True if they see it and no other module does (`.hidden`, `.protected`, `.internal`, `.private_extern`).
    pub is_own: bool,
}

/// The sections that `.cfi_sections` names; `.eh_frame` alone without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CfiSections {
    /// `.eh_frame`
    pub eh_frame: bool,
    /// `.debug_frame`
    pub debug_frame: bool,
    /// `.sframe`
    pub sframe: bool,
}

impl Default for CfiSections {
    fn default() -> Self {
        Self { eh_frame: true, debug_frame: false, sframe: false }
    }
}

impl Unit {
    /// The functions as an assembly in a dialect.
    ///
    /// # Errors
    /// A record's field cannot hold a value.
    pub fn assembly(&self, dialect: Dialect) -> Result<Assembly, AssemblyError> {
        let mut assembly = Assembly::new(self.arch).with_dialect(dialect);
        for (key, function) in self.functions.iter().enumerate() {
            assembly.push(Key(key.to_u64()), &function.directives)?;
        }
        Ok(assembly)
    }

    /// The label of a name, if the text defines it.
    pub fn label(&self, name: &str) -> Option<&Label> {
        self.labels.iter().find(|label| label.name == name)
    }
}
