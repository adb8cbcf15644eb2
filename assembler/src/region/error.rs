//! The errors of regions and of their forms.

use core::fmt;

use cfipack_cfi::write;
use cfipack_encoder::sframe::WriteError;
use cfipack_encoder::unwind_info;
use cfipack_format::{Address, Arch, Unsupported};

/// Describes a function that does not fit a region, or a value that does not fit a form.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A region reaches beyond the architecture's addresses.
    Range {
        /// The start of the region.
        base: Address,
        /// Bytes of code.
        length: u64,
    },
    /// A function has no code, or reaches beyond its region.
    Outside {
        /// The start, in bytes from the region's start.
        offset: u64,
        /// The size, in bytes.
        size: u64,
        /// Bytes of the region.
        length: u64,
    },
    /// Two functions have PCs in common.
    Overlap {
        /// The start of the refused function, in bytes from the region's start.
        offset: u64,
        /// The start of the other function, in bytes from the region's start.
        other: u64,
    },
    /// A name has a zero byte.
    Name {
        /// The offset in bytes.
        at: usize,
    },
    /// A directive has no meaning.
    Directive(crate::Error),
    /// The form does not exist for the architecture.
    Arch {
        /// The architecture.
        arch: Arch,
        /// The form.
        form: &'static str,
    },
    /// Two things lie too far from each other for a field of 32 bits.
    Distance {
        /// The address that the field counts from.
        from: Address,
        /// The address that it refers to.
        to: Address,
    },
    /// A size or number does not fit its field.
    TooLarge {
        /// A description of the value.
        what: &'static str,
        /// The size or number.
        value: u64,
        /// The largest allowed value.
        most: u64,
    },
    /// The code of a function has another size than the function.
    CodeLength {
        /// Bytes given.
        given: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// No function has this number.
    NoFunction {
        /// The number.
        index: usize,
    },
    /// A region overlaps a registered region.
    Registered {
        /// The start of the region.
        base: Address,
        /// The start of the registered region.
        other: Address,
    },
    /// No registered region starts at this address.
    NotFound {
        /// The address.
        start: Address,
    },
    /// A record of call frame information cannot be written.
    Cfi(write::Error),
    /// A record of call frame information cannot be read.
    Record(cfipack_cfi::Error),
    /// The instructions of a function cannot be read, or an address that they refer to is missing.
    Instructions(Unsupported),
    /// A `.sframe` table cannot be written.
    Sframe(WriteError),
    /// A `__unwind_info` table cannot be written.
    UnwindInfo(unwind_info::WriteError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Range { base, length } => {
                write!(f, "a region of {length:#x} bytes at {base} reaches beyond the last address")
            }
            Self::Outside { offset, size, length } => {
                write!(
                    f,
                    "a function of {size:#x} bytes at +{offset:#x} is not in a region of {length:#x} bytes"
                )
            }
            Self::Overlap { offset, other } => {
                write!(f, "the functions at +{offset:#x} and +{other:#x} overlap")
            }
            Self::Name { at } => write!(f, "the name has a zero byte at {at}"),
            Self::Arch { arch, form } => write!(f, "{form} is not defined for {arch}"),
            Self::Distance { from, to } => write!(f, "{to} is too far from {from} for 32 bits"),
            Self::TooLarge { what, value, most } => write!(f, "{what}: {value}, at most {most} fit"),
            Self::CodeLength { given, needed } => {
                write!(f, "{given} bytes of code are given for a function of {needed}")
            }
            Self::NoFunction { index } => write!(f, "the region has no function {index}"),
            Self::Registered { base, other } => {
                write!(f, "the region at {base} overlaps that at {other}, which is registered")
            }
            Self::NotFound { start } => write!(f, "no registered region starts at {start}"),
            Self::Directive(error) => error.fmt(f),
            Self::Cfi(error) => error.fmt(f),
            Self::Record(error) => error.fmt(f),
            Self::Instructions(unsupported) => unsupported.fmt(f),
            Self::Sframe(error) => error.fmt(f),
            Self::UnwindInfo(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<write::Error> for Error {
    fn from(error: write::Error) -> Self {
        Self::Cfi(error)
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        Self::Sframe(error)
    }
}
