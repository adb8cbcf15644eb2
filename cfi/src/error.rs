//! Malformed call frame information.

use core::fmt;

use cfipack_format::{Address, SectionOffset};

/// A record that cannot be read. Offsets count from the start of the CFI section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A record's length reaches beyond the section. Nothing after it can be found.
    Length {
        /// The offset of the record.
        offset: SectionOffset,
        /// The length it claims, in bytes.
        length: u64,
    },
    /// A field reaches beyond its record.
    Truncated {
        /// The offset of the record.
        offset: SectionOffset,
    },
    /// An FDE whose function ends beyond the last address: the address after its code does not exist.
    Range {
        /// The offset of the record.
        offset: SectionOffset,
        /// The function's first address.
        start: Address,
        /// The size in bytes.
        size: u64,
    },
    /// An FDE's CIE pointer leads outside the section or to something that is no CIE.
    CiePointer {
        /// The offset of the FDE.
        offset: SectionOffset,
        /// The pointer as stored.
        pointer: u64,
    },
    /// A CIE of more than 1024 bytes, where real ones have a few dozen. It might be read again for
    /// each of its FDEs.
    CieLength {
        /// The offset of the CIE.
        offset: SectionOffset,
        /// Bytes after its id.
        length: usize,
    },
    /// A CIE version other than 1, 3 and 4.
    CieVersion {
        /// The offset of the CIE.
        offset: SectionOffset,
        /// The version.
        version: u8,
    },
    /// An augmentation letter of unknown meaning.
    Augmentation {
        /// The offset of the CIE.
        offset: SectionOffset,
        /// The first letter that is not understood.
        letter: u8,
    },
    /// A pointer encoding that does not exist or cannot be followed in a file.
    PointerEncoding {
        /// The offset of the record.
        offset: SectionOffset,
        /// The encoding byte (`DW_EH_PE_*`).
        encoding: u8,
    },
    /// A CIE whose addresses have another size than the architecture's.
    AddressSize {
        /// The offset of the CIE.
        offset: SectionOffset,
        /// The size in bytes.
        size: u8,
    },
    /// A CIE of version 4 whose addresses have segment selectors.
    SegmentSize {
        /// The offset of the CIE.
        offset: SectionOffset,
        /// The size of a selector in bytes.
        size: u8,
    },
    /// A return-address column that no register has.
    ReturnColumn {
        /// The offset of the CIE.
        offset: SectionOffset,
        /// The column.
        column: u64,
    },
    /// An FDE of an unrelocated `.debug_frame`, whose CIE pointer is subject to relocation.
    Unrelocated {
        /// The offset of the FDE.
        offset: SectionOffset,
    },
}

impl Error {
    /// The offset of the record in question.
    pub const fn offset(&self) -> SectionOffset {
        match *self {
            Self::Length { offset, .. }
            | Self::Truncated { offset }
            | Self::Range { offset, .. }
            | Self::CiePointer { offset, .. }
            | Self::CieLength { offset, .. }
            | Self::CieVersion { offset, .. }
            | Self::Augmentation { offset, .. }
            | Self::PointerEncoding { offset, .. }
            | Self::AddressSize { offset, .. }
            | Self::SegmentSize { offset, .. }
            | Self::ReturnColumn { offset, .. }
            | Self::Unrelocated { offset } => offset,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}: ", self.offset())?;
        match *self {
            Self::Length { length, .. } => write!(f, "record length {length:#x} reaches beyond the section"),
            Self::Truncated { .. } => write!(f, "a field reaches beyond its record"),
            Self::Range { start, size, .. } => {
                write!(f, "a function of {size:#x} bytes at {start} ends beyond the last address")
            }
            Self::CiePointer { pointer, .. } => write!(f, "CIE pointer {pointer:#x} leads to no CIE"),
            Self::CieLength { length, .. } => write!(f, "a CIE of {length} bytes is too long"),
            Self::CieVersion { version, .. } => write!(f, "CIE version {version} is unknown"),
            Self::Augmentation { letter, .. } => {
                write!(f, "augmentation letter {letter:#04x} ('{}') is unknown", letter.escape_ascii())
            }
            Self::PointerEncoding { encoding, .. } => {
                write!(f, "pointer encoding {encoding:#04x} cannot be followed")
            }
            Self::AddressSize { size, .. } => write!(f, "address size {size} is not supported"),
            Self::SegmentSize { size, .. } => {
                write!(f, "segment selectors of {size} bytes are not supported")
            }
            Self::ReturnColumn { column, .. } => write!(f, "return-address column {column} does not exist"),
            Self::Unrelocated { .. } => write!(f, "the CIE pointer of .debug_frame is not relocated"),
        }
    }
}

impl core::error::Error for Error {}
