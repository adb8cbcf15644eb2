//! Errors of files.

use core::fmt;

use crate::unknown;

/// The reason why a file cannot be read or changed, with the place of the error and the value there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file is neither an object, nor a linked file, nor an archive.
    NotObject {
        /// The first bytes. Zeros fill the place of missing bytes.
        magic: [u8; 4],
        /// The number of bytes that the file has in this place.
        length: u8,
    },
    /// cfipack does not know this kind of file.
    Unsupported {
        /// The field of the file's header.
        what: &'static str,
        /// The offset in the file.
        offset: u64,
        /// The value.
        value: u64,
        /// The value's name, if it is known.
        name: Option<&'static str>,
    },
    /// A table of the file is damaged, or lies beyond the end of the file.
    Table {
        /// The part that cannot be read.
        what: &'static str,
        /// The place in the file, or the place that the file declares.
        offset: u64,
        /// The size or count, as the file states.
        value: u64,
    },
    /// A section or segment lies beyond the end of the file.
    SectionBounds {
        /// The section.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// Sections that are copied overlap: together they are longer than the file.
    SectionsOverlap {
        /// The section that made the sum too long.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// The sections of a relocatable object do not fit into 64-bit addresses together.
    SectionSize {
        /// The section.
        section: SectionName,
        /// The size.
        size: u64,
    },
    /// A compressed section is too short for its compression header, or lies beyond the file.
    CompressionHeader {
        /// The section.
        section: SectionName,
        /// The size.
        size: u64,
    },
    /// A section is compressed in a way that cfipack does not know.
    CompressionType {
        /// The section.
        section: SectionName,
        /// The `ch_type` in the section's compression header.
        value: u32,
    },
    /// A compressed section cannot be decompressed.
    Compressed {
        /// The section.
        section: SectionName,
        /// The uncompressed size in bytes, as the compression header claims.
        size: u64,
    },
    /// The decompressed sections of the file would be too long: together they may have 64 bytes for each byte
    /// of the file.
    CompressedSize {
        /// The section.
        section: SectionName,
        /// The uncompressed size in bytes, as the compression header claims.
        size: u64,
        /// The number of bytes that are left for it.
        room: u64,
    },
    /// A relocation has a type that is not for fields of data.
    RelocationType {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
        /// The type.
        value: u32,
    },
    /// A relocation names a symbol or section that does not exist.
    RelocationSymbol {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
        /// The symbol's index.
        value: u64,
    },
    /// A relocation's field lies beyond the end of its section.
    RelocationField {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
    },
    /// A relocation's value does not fit into its field.
    RelocationOverflow {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
        /// The value.
        value: u64,
    },
    /// `.eh_frame_hdr` is damaged.
    EhFrameHdr {
        /// The offset of the wrong byte in `.eh_frame_hdr`.
        offset: u64,
        /// The value there.
        value: u64,
    },
    /// A member of an archive is damaged. The members after it cannot be read either.
    Archive {
        /// The offset of the member.
        offset: u64,
    },
    /// An entry of an archive's symbol index does not lead to a member.
    ArchiveIndex {
        /// The place of the wrong offset in the file.
        offset: u64,
        /// The wrong offset.
        value: u64,
    },
    /// A changed archive has a size or an offset that does not fit into the field for it.
    ArchiveSize {
        /// The offset of the field in the old archive.
        offset: u64,
        /// The size or offset.
        value: u64,
    },
    /// An archive has no members.
    EmptyArchive {
        /// The offset where the first member would start.
        offset: u64,
    },
    /// The archive is a thin archive: its members are separate files.
    ThinArchive,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotObject { length: 0, .. } => {
                f.write_str("offset 0x0: neither an ELF file, a Mach-O file nor an archive: it is empty")
            }
            Self::NotObject { magic, length } => {
                f.write_str("offset 0x0: neither an ELF file, a Mach-O file nor an archive: starts with")?;
                let start = &magic[..length.into()];
                start.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
                unknown::name(start).map_or(Ok(()), |name| write!(f, ", {name}"))
            }
            Self::Unsupported { what, offset, value, name: Some(name) } => {
                write!(f, "offset {offset:#x}: {what} {name} ({value:#x}) is not supported")
            }
            Self::Unsupported { what, offset, value, name: None } => {
                write!(f, "offset {offset:#x}: {what} {value:#x} is not supported")
            }
            Self::Table { what, offset, value } => {
                write!(f, "offset {offset:#x}: damaged {what} (size or count {value:#x})")
            }
            Self::SectionBounds { section, offset, size } => {
                write!(f, "section {section}: offset {offset:#x}: {size:#x} bytes end beyond the file")
            }
            Self::SectionsOverlap { section, offset, size } => {
                write!(f, "section {section}: offset {offset:#x}: {size:#x} bytes overlap other sections")
            }
            Self::SectionSize { section, size } => {
                write!(f, "section {section}: offset 0x0: {size:#x} bytes do not fit into the address space")
            }
            Self::CompressionHeader { section, size } => {
                write!(f, "section {section}: offset 0x0: no compression header in {size:#x} bytes")
            }
            Self::CompressionType { section, value } => {
                write!(f, "section {section}: offset 0x0: compression type {value:#x} is not supported")
            }
            Self::Compressed { section, size } => {
                write!(f, "section {section}: offset 0x0: cannot be decompressed to {size:#x} bytes")
            }
            Self::CompressedSize { section, size, room } => {
                write!(
                    f,
                    "section {section}: offset 0x0: decompresses to {size:#x} bytes, of which {room:#x} are left: 64 for each byte of the file"
                )
            }
            Self::RelocationType { section, offset, value } => {
                write!(f, "section {section}: offset {offset:#x}: relocation type {value} is not one of data")
            }
            Self::RelocationSymbol { section, offset, value } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: relocation against symbol {value}, which is damaged or missing"
                )
            }
            Self::RelocationField { section, offset } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: relocation of a field beyond the section's end"
                )
            }
            Self::RelocationOverflow { section, offset, value } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: relocated value {value:#x} does not fit its field"
                )
            }
            Self::EhFrameHdr { offset, value } => {
                write!(f, "section .eh_frame_hdr: offset {offset:#x}: unexpected value {value:#x}")
            }
            Self::Archive { offset } => write!(f, "offset {offset:#x}: damaged archive member"),
            Self::ArchiveIndex { offset, value } => {
                write!(
                    f,
                    "offset {offset:#x}: the archive's symbol index leads to {value:#x}, where no member starts"
                )
            }
            Self::ArchiveSize { offset, value } => {
                write!(f, "offset {offset:#x}: the archive has no room for the size or offset {value:#x}")
            }
            Self::EmptyArchive { offset } => write!(f, "offset {offset:#x}: an archive without members"),
            Self::ThinArchive => {
                f.write_str("offset 0x0: thin archive: its members are files of their own, name them instead")
            }
        }
    }
}

impl core::error::Error for Error {}

/// A section's name inside an error. Only the first 23 bytes of a long name are kept, so that errors stay small and
/// are `Copy`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SectionName {
    bytes: [u8; Self::CAPACITY],
    length: u8,
}

impl SectionName {
    const CAPACITY: usize = 23;

    /// Keeps the start of a name: at most 23 bytes, and only whole characters.
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; Self::CAPACITY];
        let mut ends = (0..=Self::CAPACITY).rev();
        let length = ends.find(|&end| end <= name.len() && name.is_char_boundary(end)).unwrap_or(0);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self { bytes, length: length as u8 }
    }

    /// Returns the part of the name that is kept.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
