//! Values that cannot be written.

use cfipack_format::Register;

use crate::PointerEncoding;

cfipack_format::errors! {
    /// A value does not fit its field, or no reader understands the combination.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Error {
        /// A pointer does not fit its encoding.
        #[error("the distance {value:#x} does not fit a pointer of encoding {:#04x}", encoding.0)]
        Pointer {
            /// The distance from the encoding's base, in bytes.
            value: u64,
            /// The encoding.
            encoding: PointerEncoding,
        },
        /// A pointer encoding has an unknown format, or its base is not known to the writer.
        #[error("a pointer of encoding {:#04x} cannot be written", encoding.0)]
        PointerEncoding {
            /// The encoding.
            encoding: PointerEncoding,
        },
        /// An offset or advance is not a multiple of the CIE's alignment factor.
        #[error("{value} is no multiple of the CIE's factor {factor}")]
        Factor {
            /// The offset or advance, in bytes.
            value: i64,
            /// The CIE's factor.
            factor: i64,
        },
        /// An advance has more than 2^32 - 1 units.
        #[error("an advance by {delta} bytes is too long")]
        Advance {
            /// The number of bytes of code.
            delta: u64,
        },
        /// An augmentation letter is unknown, or the CIE does not have its data.
        #[error("augmentation letter '{}' cannot be written", letter.escape_ascii())]
        Augmentation {
            /// The letter.
            letter: u8,
        },
        /// The augmentation data has 128 bytes or more.
        #[error("augmentation data of {length} bytes is too long")]
        AugmentationData {
            /// The number of bytes.
            length: usize,
        },
        /// The version of a CIE is not 1, 3 or 4.
        #[error("CIE version {version} cannot be written")]
        Version {
            /// The version.
            version: u8,
        },
        /// A version 1 CIE stores the return-address column in a byte, and the column does not fit.
        #[error("return-address column {register} does not fit a CIE of version 1")]
        ReturnColumn {
            /// The column.
            register: Register,
        },
        /// `DW_CFA_set_loc` holds an address, and the writer does not know where the instruction will lie.
        #[error("DW_CFA_set_loc depends on where the instruction lies")]
        SetLocation,
    }
}
