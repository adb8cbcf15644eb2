//! Errors of directives that have no meaning.

use core::fmt;

use cfipack_format::{Arch, Register};

use crate::cfi::PointerEncoding;

/// A directive that has no meaning where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Error {
    /// The directive's number, counted from 0 in the order of calls.
    pub directive: usize,
    /// The offset in bytes from the function's start.
    pub offset: u64,
    /// The misuse.
    pub misuse: Misuse,
}

cfipack_format::messages! {
    /// A misuse of a directive.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Misuse {
        /// The offset is lower than the offset of the directive before.
        #[error("the offset is lower than that of the directive before, {previous:#x}")]
        OffsetBackwards {
            /// The offset of the directive before, in bytes.
            previous: u64,
        },
        /// The offset lies after the function's end.
        #[error("the code ends at {code_len:#x}")]
        OffsetBeyondCode {
            /// The function's size, in bytes.
            code_len: u64,
        },
        /// The offset is not a multiple of the size of the architecture's instructions. CFI counts in this
        /// size.
        #[error("the offset is no multiple of {unit}")]
        OffsetUnaligned {
            /// Bytes of an instruction.
            unit: u64,
        },
        /// `.cfi_restore_state` without a `.cfi_remember_state`.
        #[error("there is no remembered state to restore")]
        RestoreWithoutRemember,
        /// The architecture's psABI has no register with this number.
        #[error("{arch} has no register {register}")]
        Register {
            /// The register.
            register: Register,
            /// The architecture.
            arch: Arch,
        },
        /// The architecture does not have the directive: `.cfi_negate_ra_state` is AArch64's.
        #[error("{arch} does not have this directive")]
        Architecture {
            /// The architecture.
            arch: Arch,
        },
        /// An offset is not a multiple of the data alignment factor, in which CFI counts it.
        #[error("{value} is no multiple of {}", factor.abs())]
        Factor {
            /// The offset, in bytes.
            value: i64,
            /// The factor, in bytes.
            factor: i64,
        },
        /// A pointer encoding other than absolute or PC-relative with a fixed size. No assembler writes it.
        #[error("pointers of encoding {:#04x} cannot be written", encoding.0)]
        Encoding {
            /// The encoding.
            encoding: PointerEncoding,
        },
        /// A return column that does not fit a CIE of version 1.
        #[error("column {register} does not fit a byte")]
        ReturnColumn {
            /// The column.
            register: Register,
        },
        /// An offset that is relative to the CFA's offset does not fit 64 bits.
        #[error("{value} and the CFA's offset {cfa_offset} do not fit 64 bits")]
        Overflow {
            /// The CFA's offset, in bytes.
            cfa_offset: i64,
            /// The value of the directive, in bytes.
            value: i64,
        },
        /// More bytes of `.cfi_escape` or of directives than 32 bits can count.
        #[error("the directives are too long")]
        Length,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directive, offset, misuse } = self;
        write!(f, "directive {directive} at offset {offset:#x}: {misuse}")
    }
}

impl core::error::Error for Error {}
