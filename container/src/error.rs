//! Errors of files.

use core::fmt;

use crate::unknown;

/// The reason why a file cannot be read or changed, with the place of the error and the value there.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file is neither an object, nor a linked file, nor an archive.
    #[error(fmt = not_object)]
    NotObject {
        /// The first bytes. Zeros fill the place of missing bytes.
        magic: [u8; 4],
        /// The number of bytes that the file has in this place.
        length: u8,
    },
    /// cfipack does not know this kind of file.
    #[error(fmt = unsupported)]
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
    #[error("offset {offset:#x}: damaged {what} (size or count {value:#x})")]
    Table {
        /// The part that cannot be read.
        what: &'static str,
        /// The place in the file, or the place that the file declares.
        offset: u64,
        /// The size or count, as the file states.
        value: u64,
    },
    /// A section or segment lies beyond the end of the file.
    #[error("section {section}: offset {offset:#x}: {size:#x} bytes end beyond the file")]
    SectionBounds {
        /// The section.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// Sections that are copied overlap: together they are longer than the file.
    #[error("section {section}: offset {offset:#x}: {size:#x} bytes overlap other sections")]
    SectionsOverlap {
        /// The section that made the sum too long.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// The sections of a relocatable object do not fit into 64-bit addresses together.
    #[error("section {section}: offset 0x0: {size:#x} bytes do not fit into the address space")]
    SectionSize {
        /// The section.
        section: SectionName,
        /// The size.
        size: u64,
    },
    /// A compressed section is too short for its compression header, or lies beyond the file.
    #[error("section {section}: offset 0x0: no compression header in {size:#x} bytes")]
    CompressionHeader {
        /// The section.
        section: SectionName,
        /// The size.
        size: u64,
    },
    /// A section is compressed in a way that cfipack does not know.
    #[error("section {section}: offset 0x0: compression type {value:#x} is not supported")]
    CompressionType {
        /// The section.
        section: SectionName,
        /// The `ch_type` in the section's compression header.
        value: u32,
    },
    /// A compressed section cannot be decompressed.
    #[error("section {section}: offset 0x0: cannot be decompressed to {size:#x} bytes")]
    Compressed {
        /// The section.
        section: SectionName,
        /// The uncompressed size in bytes, as the compression header claims.
        size: u64,
    },
    /// The decompressed sections of the file would be too long: together they may have 64 bytes for each byte
    /// of the file.
    #[error(
        "section {section}: offset 0x0: decompresses to {size:#x} bytes, of which {room:#x} are left: 64 for each byte of the file"
    )]
    CompressedSize {
        /// The section.
        section: SectionName,
        /// The uncompressed size in bytes, as the compression header claims.
        size: u64,
        /// The number of bytes that are left for it.
        room: u64,
    },
    /// A relocation has a type that is not for fields of data.
    #[error("section {section}: offset {offset:#x}: relocation type {value} is not one of data")]
    RelocationType {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
        /// The type.
        value: u32,
    },
    /// A relocation names a symbol or section that does not exist.
    #[error(
        "section {section}: offset {offset:#x}: relocation against symbol {value}, which is damaged or missing"
    )]
    RelocationSymbol {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
        /// The symbol's index.
        value: u64,
    },
    /// A relocation's field lies beyond the end of its section.
    #[error("section {section}: offset {offset:#x}: relocation of a field beyond the section's end")]
    RelocationField {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
    },
    /// A relocation's value does not fit into its field.
    #[error("section {section}: offset {offset:#x}: relocated value {value:#x} does not fit its field")]
    RelocationOverflow {
        /// The section that contains the field.
        section: SectionName,
        /// The offset of the field in the section.
        offset: u64,
        /// The value.
        value: u64,
    },
    /// `.eh_frame_hdr` is damaged.
    #[error("section .eh_frame_hdr: offset {offset:#x}: unexpected value {value:#x}")]
    EhFrameHdr {
        /// The offset of the wrong byte in `.eh_frame_hdr`.
        offset: u64,
        /// The value there.
        value: u64,
    },
    /// A file is no debug file for another: one of them is not a linked ELF file, or they have different architectures.
    #[error("offset 0x12: a file of machine {machine:#x} is no debug file for this file")]
    DebugFile {
        /// The machine of the debug file (`e_machine`), or 0 for a file that is not ELF.
        machine: u16,
    },
    /// A member of an archive is damaged. The members after it cannot be read either.
    #[error("offset {offset:#x}: damaged archive member")]
    Archive {
        /// The offset of the member.
        offset: u64,
    },
    /// An entry of an archive's symbol index does not lead to a member.
    #[error("offset {offset:#x}: the archive's symbol index leads to {value:#x}, where no member starts")]
    ArchiveIndex {
        /// The place of the wrong offset in the file.
        offset: u64,
        /// The wrong offset.
        value: u64,
    },
    /// A changed archive has a size or an offset that does not fit into the field for it.
    #[error("offset {offset:#x}: the archive has no room for the size or offset {value:#x}")]
    ArchiveSize {
        /// The offset of the field in the old archive.
        offset: u64,
        /// The size or offset.
        value: u64,
    },
    /// An archive has no members.
    #[error("offset {offset:#x}: an archive without members")]
    EmptyArchive {
        /// The offset where the first member would start.
        offset: u64,
    },
    /// The archive is a thin archive: its members are separate files.
    #[error("offset 0x0: thin archive: its members are files of their own, name them instead")]
    ThinArchive,
}

impl Error {
    /// Returns whether the file is LLVM bitcode, which compilers write for link-time optimization.
    pub fn is_bitcode(&self) -> bool {
        matches!(self, Self::NotObject { magic, .. } if unknown::is_bitcode(magic))
    }
}

fn not_object(magic: &[u8; 4], length: &u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("offset 0x0: neither an ELF file, a Mach-O file nor an archive: ")?;
    let start = &magic[..usize::from(*length)];
    if start.is_empty() {
        return f.write_str("it is empty");
    }
    f.write_str("starts with")?;
    start.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
    unknown::name(start).map_or(Ok(()), |name| write!(f, ", {name}"))
}

fn unsupported(
    what: &str,
    offset: &u64,
    value: &u64,
    name: &Option<&'static str>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match name {
        Some(name) => write!(f, "offset {offset:#x}: {what} {name} ({value:#x}) is not supported"),
        None => write!(f, "offset {offset:#x}: {what} {value:#x} is not supported"),
    }
}

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
