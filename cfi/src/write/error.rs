//! Values that a record cannot hold.

use core::fmt;

use cfipack_format::Register;

use crate::PointerEncoding;

/// A value that its field cannot hold, or a combination that no reader understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A pointer does not fit its encoding.
    Pointer {
        /// The distance from the encoding's base, in bytes.
        value: u64,
        /// The encoding.
        encoding: PointerEncoding,
    },
    /// A pointer encoding without a known format, or relative to what a writer does not know.
    PointerEncoding {
        /// The encoding.
        encoding: PointerEncoding,
    },
    /// An offset or advance is no multiple of the CIE's alignment factor.
    Factor {
        /// The offset or advance, in bytes.
        value: i64,
        /// The CIE's factor.
        factor: i64,
    },
    /// An advance of more than 2^32 - 1 units.
    Advance {
        /// Bytes of code.
        delta: u64,
    },
    /// An augmentation letter of unknown meaning, or one whose data the CIE does not have.
    Augmentation {
        /// The letter.
        letter: u8,
    },
    /// Augmentation data of 128 bytes or more.
    AugmentationData {
        /// Bytes.
        length: usize,
    },
    /// A CIE version other than 1, 3 and 4.
    Version {
        /// The version.
        version: u8,
    },
    /// A CIE of version 1 holds the return-address column in a byte.
    ReturnColumn {
        /// The column.
        register: Register,
    },
    /// `DW_CFA_set_loc` holds an address, which depends on where the instruction lies.
    SetLocation,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pointer { value, encoding } => {
                write!(f, "the distance {value:#x} does not fit a pointer of encoding {:#04x}", encoding.0)
            }
            Self::PointerEncoding { encoding } => {
                write!(f, "a pointer of encoding {:#04x} cannot be written", encoding.0)
            }
            Self::Factor { value, factor } => {
                write!(f, "{value} is no multiple of the CIE's factor {factor}")
            }
            Self::Advance { delta } => write!(f, "an advance by {delta} bytes is too long"),
            Self::Augmentation { letter } => {
                write!(f, "augmentation letter '{}' cannot be written", letter.escape_ascii())
            }
            Self::AugmentationData { length } => {
                write!(f, "augmentation data of {length} bytes is too long")
            }
            Self::Version { version } => write!(f, "CIE version {version} cannot be written"),
            Self::ReturnColumn { register } => {
                write!(f, "return-address column {register} does not fit a CIE of version 1")
            }
            Self::SetLocation => write!(f, "DW_CFA_set_loc depends on where the instruction lies"),
        }
    }
}

impl core::error::Error for Error {}
