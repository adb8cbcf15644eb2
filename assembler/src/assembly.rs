//! Collects the functions of an object or of a region of generated code.

use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::{Arch, Key, UnsupportedFormat};

use crate::call_frames::{CallFrames, Records};
use crate::cfi::{SectionKind, write};
use crate::directives::Frame;
use crate::instructions::{Encoded, Mark, encode};
use crate::{Dialect, Directives, Error};

/// Collects functions with their directives, in the order of `.cfi_startproc`. Every section is made from an
/// assembly.
///
/// ```
/// use cfipack_assembler::{Assembly, Directives};
/// use cfipack_encoder::sframe::Options;
/// use cfipack_format::{Arch, Key};
///
/// let mut assembly = Assembly::new(Arch::Amd64);
/// assembly.push(Key(1), &Directives::new(Arch::Amd64, 1))?; // one `ret`
/// assert_eq!(assembly.eh_frame()?.len(), 24 + 24); // CIE, FDE
/// assert_eq!(assembly.sframe(Options::new())?.section.len(), 28 + 16 + 5 + 3); // header, FDE, attribute, row
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Assembly {
    pub(crate) arch: Arch,
    pub(crate) dialect: Dialect,
    pub(crate) functions: Vec<Function>,
    /// The call frame instructions of all functions.
    pub(crate) bytes: Vec<u8>,
    /// Marks of facts that the instructions do not show, in ascending order.
    pub(crate) marks: Vec<Mark>,
}

/// A function of an assembly.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) key: Key,
    pub(crate) size: u64,
    pub(crate) is_simple: bool,
    pub(crate) frame: Frame,
    pub(crate) instructions: Encoded,
}

impl Function {
    /// Returns the range of the instructions that a CIE can have.
    pub(crate) fn leading(&self) -> Range<usize> {
        let start = self.instructions.bytes.start;
        start..start + self.instructions.leading
    }
}

cfipack_format::errors! {
    /// The reason why a function cannot be added, or a section cannot be made.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum AssemblyError {
        /// A directive has no meaning.
        #[error("{error}")]
        Directive(error: Error),
        /// The directives are for another architecture.
        #[error("directives for {directives} in an assembly for {assembly}")]
        Architecture {
            /// The architecture of the directives.
            directives: Arch,
            /// The architecture of the assembly.
            assembly: Arch,
        },
        /// The format does not have the architecture, or this crate does not write its version.
        #[error("{unsupported}")]
        Unsupported(unsupported: UnsupportedFormat),
        /// A record's field cannot hold its value.
        #[error("function {function}: {error}")]
        Record {
            /// The function.
            function: Key,
            /// The field and the value.
            error: write::Error,
        },
    }
}

impl Assembly {
    /// Creates an assembly without functions, in the dialect of the GNU assembler.
    pub fn new(arch: Arch) -> Self {
        let (functions, bytes, marks) = (Vec::new(), Vec::new(), Vec::new());
        Self { arch, dialect: Dialect::Gas, functions, bytes, marks }
    }

    /// Sets the dialect.
    ///
    /// # Panics
    /// If there are functions already.
    pub fn with_dialect(self, dialect: Dialect) -> Self {
        assert!(self.functions.is_empty(), "an assembly has one dialect");
        Self { dialect, ..self }
    }

    /// Returns the architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Returns whether there are no functions.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Removes all functions, and keeps the memory for other functions.
    pub fn clear(&mut self) {
        self.functions.clear();
        self.bytes.clear();
        self.marks.clear();
    }

    /// Adds a function. `key` is a number of your choice, unique among the functions.
    ///
    /// # Errors
    /// The directives have an error, or are for another architecture. After an error nothing was added.
    pub fn push(&mut self, key: Key, directives: &Directives) -> Result<(), AssemblyError> {
        directives.check().map_err(AssemblyError::Directive)?;
        if directives.arch != self.arch {
            return Err(AssemblyError::Architecture { directives: directives.arch, assembly: self.arch });
        }
        let instructions = encode(directives, self.dialect, &mut self.bytes, &mut self.marks)
            .map_err(|error| AssemblyError::Record { function: key, error })?;
        let Directives { is_simple, frame, code_len: size, .. } = *directives;
        self.functions.push(Function { key, size, is_simple, frame, instructions });
        Ok(())
    }

    /// Returns the marks of a function.
    pub(crate) fn marks_of(&self, function: &Function) -> &[Mark] {
        &self.marks[function.instructions.marks.clone()]
    }

    /// Returns the `.eh_frame` of the functions.
    ///
    /// # Errors
    /// A function is too large for the four bytes of its size.
    pub fn eh_frame(&self) -> Result<CallFrames, AssemblyError> {
        Records::new(self, SectionKind::EhFrame).write_all()
    }

    /// Returns the `.debug_frame` of the functions.
    ///
    /// # Errors
    /// The errors of [`eh_frame`](Self::eh_frame).
    pub fn debug_frame(&self) -> Result<CallFrames, AssemblyError> {
        Records::new(self, SectionKind::DebugFrame).write_all()
    }
}

impl From<Error> for AssemblyError {
    fn from(error: Error) -> Self {
        Self::Directive(error)
    }
}
