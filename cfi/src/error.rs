//! Errors in call frame information.

use cfipack_format::{Address, SectionOffset};

cfipack_format::errors! {
    /// The reason why a record cannot be read. Offsets count from the start of the CFI section.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Error {
        /// A record's length reaches beyond the section. The records after it cannot be found.
        #[error("offset {offset}: record length {length:#x} reaches beyond the section")]
        Length {
            /// The offset of the record.
            offset: SectionOffset,
            /// The length that the record claims, in bytes.
            length: u64,
        },
        /// A field reaches beyond its record.
        #[error("offset {offset}: a field reaches beyond its record")]
        Truncated {
            /// The offset of the record.
            offset: SectionOffset,
        },
        /// The function of an FDE ends beyond the last address.
        #[error("offset {offset}: a function of {size:#x} bytes at {start} ends beyond the last address")]
        Range {
            /// The offset of the record.
            offset: SectionOffset,
            /// The function's first address.
            start: Address,
            /// The size in bytes.
            size: u64,
        },
        /// The CIE pointer of an FDE leads outside the section, or to bytes that are not a CIE.
        #[error("offset {offset}: CIE pointer {pointer:#x} leads to no CIE")]
        CiePointer {
            /// The offset of the FDE.
            offset: SectionOffset,
            /// The pointer as stored.
            pointer: u64,
        },
        /// A CIE has more than 1024 bytes. Real CIEs have a few dozen bytes. Hostile input could make us read
        /// a long CIE again for each FDE.
        #[error("offset {offset}: a CIE of {length} bytes is too long")]
        CieLength {
            /// The offset of the CIE.
            offset: SectionOffset,
            /// The number of bytes after the CIE's id.
            length: usize,
        },
        /// The version of a CIE is not 1, 3 or 4.
        #[error("offset {offset}: CIE version {version} is unknown")]
        CieVersion {
            /// The offset of the CIE.
            offset: SectionOffset,
            /// The version.
            version: u8,
        },
        /// A CIE has an unknown augmentation letter.
        #[error("offset {offset}: augmentation letter {letter:#04x} ('{}') is unknown", letter.escape_ascii())]
        Augmentation {
            /// The offset of the CIE.
            offset: SectionOffset,
            /// The first unknown letter.
            letter: u8,
        },
        /// A pointer encoding is unknown, or the pointer cannot be followed in a file.
        #[error("offset {offset}: pointer encoding {encoding:#04x} cannot be followed")]
        PointerEncoding {
            /// The offset of the record.
            offset: SectionOffset,
            /// The encoding byte (`DW_EH_PE_*`).
            encoding: u8,
        },
        /// The addresses of a CIE do not have the architecture's size.
        #[error("offset {offset}: address size {size} is not supported")]
        AddressSize {
            /// The offset of the CIE.
            offset: SectionOffset,
            /// The size in bytes.
            size: u8,
        },
        /// The addresses of a version 4 CIE have segment selectors.
        #[error("offset {offset}: segment selectors of {size} bytes are not supported")]
        SegmentSize {
            /// The offset of the CIE.
            offset: SectionOffset,
            /// The size of a selector in bytes.
            size: u8,
        },
        /// The return-address column is not a register number.
        #[error("offset {offset}: return-address column {column} does not exist")]
        ReturnColumn {
            /// The offset of the CIE.
            offset: SectionOffset,
            /// The column.
            column: u64,
        },
        /// An FDE belongs to an unrelocated `.debug_frame`. A relocation changes its CIE pointer.
        #[error("offset {offset}: the CIE pointer of .debug_frame is not relocated")]
        Unrelocated {
            /// The offset of the FDE.
            offset: SectionOffset,
        },
    }
}

impl Error {
    /// Returns the offset of the malformed record.
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
