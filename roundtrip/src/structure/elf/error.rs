//! The differences between an edited file and the original.

use core::fmt;

/// The original or the new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// The original.
    Old,
    /// The edited file.
    New,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Old => "old",
            Self::New => "new",
        })
    }
}

cfipack_format::errors! {
    /// A difference of two files that no added, removed or replaced `.sframe` explains.
    ///
    /// `old` is the value of the original, or the value that follows from it for the new file. `new` is the value in
    /// the new file. A field has the name that the ELF specification gives it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum StructureError {
        /// A file cannot be read.
        #[error("{file} file: offset {offset:#x}: {what} (size or value {value:#x}) cannot be read")]
        Unreadable {
            /// The file.
            file: Version,
            /// The part of it that is damaged, or not supported.
            what: &'static str,
            /// The offset in the file.
            offset: u64,
            /// The size or value.
            value: u64,
        },
        /// Two parts of a file overlap.
        #[error("{file} file: {what} overlap: one starts at {offset:#x}, another ends at {end:#x}")]
        Overlap {
            /// The file.
            file: Version,
            /// The kind of the parts.
            what: &'static str,
            /// The start of the later part, in the file or in memory.
            offset: u64,
            /// The end of the earlier part.
            end: u64,
        },
        /// A field of the ELF header differs.
        #[error("ELF header: {field} {new:#x} was {old:#x}")]
        Header {
            /// The name.
            field: &'static str,
            /// The original's value.
            old: u64,
            /// The new file's value.
            new: u64,
        },
        /// A field of a program header differs.
        #[error("program header {index}: {field} {new:#x} must be {old:#x}")]
        Segment {
            /// The header's index in the new file.
            index: usize,
            /// The name.
            field: &'static str,
            /// The value that follows from the original.
            old: u64,
            /// The new file's value.
            new: u64,
        },
        /// A program header leads to other bytes of the file than the original's.
        #[error("program header {index}: the {size} bytes at p_offset {offset:#x} are other ones")]
        SegmentBytes {
            /// The header's index in the new file.
            index: usize,
            /// The `p_offset`.
            offset: u64,
            /// The `p_filesz`.
            size: u64,
        },
        /// A program header of the original is missing.
        #[error("program header {index} of the old file (type {kind:#x}) is missing")]
        MissingSegment {
            /// The index in the original.
            index: usize,
            /// The `p_type`.
            kind: u32,
        },
        /// A program header was added that belongs to no table.
        #[error("program header {index} (type {kind:#x}) is new and belongs to no table")]
        AddedSegment {
            /// The index in the new file.
            index: usize,
            /// The `p_type`.
            kind: u32,
        },
        /// The number of sections differs, without the tables.
        #[error("{new} sections without the tables, the old file has {old}")]
        SectionCount {
            /// The number in the original.
            old: usize,
            /// The number in the new file.
            new: usize,
        },
        /// A field of a section header differs.
        #[error("section {index}: {field} {new:#x} must be {old:#x}")]
        Section {
            /// The header's index in the new file.
            index: usize,
            /// The name.
            field: &'static str,
            /// The value that follows from the original.
            old: u64,
            /// The new file's value.
            new: u64,
        },
        /// A section has another name.
        #[error("section {index}: its name, at {new:#x} of the names, is not that at {old:#x} of the old ones")]
        SectionName {
            /// The header's index in the new file.
            index: usize,
            /// The original's `sh_name`.
            old: u32,
            /// The new file's `sh_name`.
            new: u32,
        },
        /// A section that is loaded in the original is not loaded.
        #[error("section {index}: the {size} bytes at address {address:#x} are not loaded")]
        SectionNotLoaded {
            /// The header's index in the new file.
            index: usize,
            /// The `sh_addr`.
            address: u64,
            /// The `sh_size`.
            size: u64,
        },
        /// A byte of a section differs.
        #[error("section {index}: offset {offset:#x}: byte {new:#04x} was {old:#04x}")]
        SectionByte {
            /// The section's index in the new file.
            index: usize,
            /// The offset of the byte from the section's start.
            offset: u64,
            /// The original's byte.
            old: u8,
            /// The new file's byte.
            new: u8,
        },
        /// An item of a section differs: of a symbol table, the dynamic section, relocations, a group.
        #[error("section {section}: item {index}: {field} {new:#x} must be {old:#x}")]
        Item {
            /// The section's index in the new file.
            section: usize,
            /// The item's index in the section of the new file.
            index: usize,
            /// The field.
            field: &'static str,
            /// The value that follows from the original.
            old: u64,
            /// The new file's value.
            new: u64,
        },
        /// The original relocates a field in a moved section, or has an address in it.
        #[error("section {section}: relocation {index} needs address {address:#x}, which was moved")]
        Refers {
            /// The section with the relocation, by its index in the original.
            section: usize,
            /// The relocation's index.
            index: usize,
            /// The address in the moved section.
            address: u64,
        },
        /// A byte outside of sections is new.
        #[error("offset {offset:#x}: byte {new:#04x} outside of sections was {old:#04x}")]
        AddedByte {
            /// The offset in the new file.
            offset: u64,
            /// The byte that the original has there, or 0.
            old: u8,
            /// The byte.
            new: u8,
        },
        /// A byte outside of sections is lost.
        #[error("offset {offset:#x} of the old file: byte {old:#04x} outside of sections became {new:#04x}")]
        LostByte {
            /// The offset in the original.
            offset: u64,
            /// The byte.
            old: u8,
            /// The byte that the new file has there, or 0.
            new: u8,
        },
        /// The new file's `.sframe` section or its segment breaks a rule.
        #[error("section .sframe: {field} {found:#x} must be {expected:#x}")]
        Table {
            /// The field.
            field: &'static str,
            /// The value that the field must have.
            expected: u64,
            /// The value that the field has.
            found: u64,
        },
    }
}

impl StructureError {
    /// Returns the section that the error is about, if it is about a section: the file, and the section's index there.
    pub fn section(&self) -> Option<(Version, usize)> {
        match *self {
            Self::Refers { section, .. } => Some((Version::Old, section)),
            Self::Section { index, .. }
            | Self::SectionName { index, .. }
            | Self::SectionNotLoaded { index, .. }
            | Self::SectionByte { index, .. }
            | Self::Item { section: index, .. } => Some((Version::New, index)),
            _ => None,
        }
    }
}
