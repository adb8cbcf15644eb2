//! Assembler text to functions with their directives: listings, and sources whose sizes are fixed by data directives.
//!
//! A [`Reader`] takes either, and returns a [`Unit`]: the functions in the order of `.cfi_startproc`, each with its
//! section, its offset there, its size and its directives. Nothing is assembled: the offsets of a listing are those
//! that the assembler printed, and a source with instructions is refused.
//!
//! A listing (`as -aclmn=FILE --listing-rhs-width=200`) that does not have all that is needed is refused with the
//! option that adds it, never guessed at. All errors of a text are found at once.
//!
//! ```
//! use cfipack_format::Arch;
//! use cfipack_assembler::text::Reader;
//!
//! let text = "
//!         .text
//!         .globl f
//! f:      .cfi_startproc
//!         .byte 0x55                  # push %rbp
//!         .cfi_adjust_cfa_offset 8
//!         .byte 0x5d, 0xc3            # pop %rbp; ret
//!         .cfi_endproc
//! ";
//! let unit = Reader::new(Arch::Amd64).read(text.as_bytes()).expect("no errors");
//! assert_eq!(unit.functions[0].name.as_deref(), Some("f"));
//! assert_eq!(unit.functions[0].directives.code_len(), 3);
//!
//! let errors = Reader::new(Arch::Amd64).read(b"\t.cfi_endproc\n").unwrap_err();
//! assert_eq!(
//!     errors.print("f.s"),
//!     "f.s:1:9: error: .cfi_endproc without corresponding .cfi_startproc
//!     1 |         .cfi_endproc
//!       |         ^~~~~~~~~~~~
//! "
//! );
//! ```

mod cfi;
mod collect;
mod conditions;
mod diagnostic;
mod finish;
mod lines;
mod listing;
mod operands;
mod plain;
mod rows;
mod sections;
mod statement;
mod unit;

pub use diagnostic::{Diagnostic, Diagnostics, Problem};
pub use lines::{SourceLine, source_lines};
pub use unit::{CfiSections, Function, Label, Section, Unit};

use cfipack_format::Arch;

/// The file format that a text is for, which decides what its section directives mean.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// ELF.
    Elf,
    /// Mach-O.
    MachO,
}

/// Reads assembler text.
///
/// ```
/// use cfipack_assembler::Dialect;
/// use cfipack_assembler::text::Reader;
/// use cfipack_format::Arch;
///
/// // A source of data alone; of one with instructions the listing has their sizes.
/// let text = "\
/// \t.text
/// f:\t.cfi_startproc
/// \t.byte 0x55            # push rbp
/// \t.cfi_adjust_cfa_offset 8
/// \t.byte 0x5d, 0xc3      # pop rbp; ret
/// \t.cfi_endproc
/// ";
/// let unit = Reader::new(Arch::Amd64).read(text.as_bytes()).map_err(|errors| errors.print("f.s"))?;
/// assert_eq!(unit.functions[0].name.as_deref(), Some("f"));
/// assert_eq!(unit.functions[0].directives.code_len(), 3);
/// let eh_frame = unit.assembly(Dialect::Gas)?.eh_frame()?;
/// assert!(eh_frame.as_bytes().windows(3).any(|bytes| bytes == [0x41, 0x0e, 16])); // after 1 byte, CFA = rsp + 16
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    arch: Arch,
    format: Option<Format>,
    source: Option<&'a [u8]>,
}

impl<'a> Reader<'a> {
    /// A reader of text for an architecture, in the format that the text's sections have.
    pub const fn new(arch: Arch) -> Self {
        Self { arch, format: None, source: None }
    }

    /// Sets the file format.
    pub const fn with_format(self, format: Format) -> Self {
        Self { format: Some(format), ..self }
    }

    /// A copy with the text that a listing is of, where the listing's lines are cut.
    pub const fn with_source(self, source: &'a [u8]) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Reads a listing or a source: which one it is, its first line tells.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of its lines.
    pub fn read(&self, text: &'a [u8]) -> Result<Unit, Diagnostics<'a>> {
        if u32::try_from(text.len()).is_err() {
            return Err(Diagnostics::one(text, Problem::TooLong));
        }
        if rows::is_listing(text) {
            listing::read(self.arch, self.source, text)
        } else {
            let format = self.format.unwrap_or_else(|| plain::format_of(text));
            plain::read(self.arch, format, text)
        }
    }
}

/// Returns whether a text is a listing, by its first line that is not empty.
pub fn is_listing(text: &[u8]) -> bool {
    rows::is_listing(text)
}
