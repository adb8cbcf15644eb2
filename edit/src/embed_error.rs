//! The reasons why a table cannot be put into a file or removed from it.

use core::fmt;

use cfipack_container::{Error, SectionName};

/// The reason why a file is not changed. It names the obstacle, its place in the file, and the value there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EmbedError {
    /// The file cannot be read.
    File(Error),
    /// The file is Mach-O. `.sframe` is for ELF.
    NotElf,
    /// The file is a relocatable object, and a linked file is needed.
    Relocatable,
    /// The file is linked, and a relocatable object is needed.
    Linked,
    /// A linked file has no section headers, so the meaning of its bytes is unknown.
    NoSectionHeaders,
    /// A linked file has no segments to load.
    NoSegments,
    /// The file has debug information only. Its code is in another file.
    NoContents {
        /// The section of code without bytes.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// There are bytes after everything that the headers describe, such as an archive that a program carries.
    Overlay {
        /// The offset in the file.
        offset: u64,
        /// The number of bytes.
        size: u64,
    },
    /// The file has a signature of all bytes before it.
    Signature {
        /// The offset in the file.
        offset: u64,
    },
    /// The loaded segments are not in ascending order of address.
    SegmentOrder {
        /// The program header's offset in the file.
        offset: u64,
        /// The `p_vaddr`.
        value: u64,
    },
    /// A segment has a physical address of its own, as in a kernel or firmware.
    PhysicalAddress {
        /// The program header's offset in the file.
        offset: u64,
        /// The `p_paddr`.
        value: u64,
    },
    /// The file has more `.sframe` sections than linkers leave.
    SeveralTables {
        /// The offset of the first `.sframe` that is too many, in the file.
        offset: u64,
        /// The index of its section.
        value: u64,
    },
    /// A section leaves no room for a program header.
    NoRoom {
        /// The section in the way.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// No way that suits the file makes room for a program header.
    NoWay {
        /// The offset of the program headers in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// There are unknown bytes after the program headers that belong to no section.
    UnknownBytes {
        /// The offset of the first unknown byte in the file.
        offset: u64,
        /// The byte and up to 7 that follow, as a little-endian number.
        value: u64,
    },
    /// A reference of an unknown kind leads into a section that has to move. It is a relocation, a symbol or an entry
    /// of the dynamic section.
    Reference {
        /// The section with the reference.
        section: SectionName,
        /// The entry's offset in the file.
        offset: u64,
        /// The address that it refers to.
        value: u64,
    },
    /// The object has no symbol table, which relocations need.
    NoSymbolTable,
    /// The sections of the object have no names.
    NoSectionNames {
        /// The index of the section that should have the names.
        value: u64,
    },
    /// The object has program headers.
    ObjectSegments {
        /// The offset in the file.
        offset: u64,
        /// The number of program headers.
        value: u64,
    },
    /// The start of a function is not in the table, or is in a section that does not exist.
    Start {
        /// The offset in the table.
        offset: u64,
        /// The section's index.
        value: u64,
    },
    /// A section of an object has the name of a table, and a type that no table has.
    TableType {
        /// The offset in the file.
        offset: u64,
        /// The type.
        value: u32,
    },
    /// A section has symbol numbers in an unknown form. The numbers would have to change.
    SymbolNumbers {
        /// The section.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The type.
        value: u64,
    },
    /// A section or a relocation refers to the table that would be removed.
    TableReference {
        /// The section.
        section: SectionName,
        /// The offset of the section or of the relocation in the file.
        offset: u64,
        /// The number of the table's section or symbol.
        value: u64,
    },
    /// The table that would be removed has a symbol that other objects can refer to.
    TableSymbol {
        /// The number of the symbol.
        value: u64,
    },
    /// A section needs a symbol, but its number is too large for a symbol and the object has no `SHT_SYMTAB_SHNDX`
    /// section for large numbers.
    ExtendedIndex {
        /// The section's number.
        value: u64,
    },
    /// A change would write bytes that belong to several parts of the file.
    Overlap {
        /// The offset of the first of the bytes in the file.
        offset: u64,
        /// The number of bytes.
        size: u64,
    },
    /// The table does not fit into the address space after the last segment, or into the file.
    Address {
        /// The address that it would have.
        value: u64,
        /// The length.
        size: u64,
    },
}

impl From<Error> for EmbedError {
    fn from(error: Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for EmbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::NotElf => f.write_str("offset 0x0: a Mach-O file; .sframe belongs to ELF"),
            Self::Relocatable => f.write_str("offset 0x10: a relocatable object, not a linked file"),
            Self::Linked => f.write_str("offset 0x10: a linked file, not a relocatable object"),
            Self::NoSectionHeaders => f.write_str("offset 0x28: a linked file without section headers"),
            Self::NoSegments => f.write_str("offset 0x20: a linked file without segments to load"),
            Self::NoContents { section, offset, size } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: {size:#x} bytes of code are not in the file"
                )
            }
            Self::Overlay { offset, size } => {
                write!(f, "offset {offset:#x}: {size:#x} bytes after all that the headers describe")
            }
            Self::Signature { offset } => {
                write!(f, "offset {offset:#x}: a signature, which a change would break")
            }
            Self::SegmentOrder { offset, value } => {
                write!(f, "offset {offset:#x}: segment at {value:#x} is not in ascending order")
            }
            Self::PhysicalAddress { offset, value } => {
                write!(f, "offset {offset:#x}: segment with the physical address {value:#x}")
            }
            Self::SeveralTables { offset, value } => {
                write!(f, "offset {offset:#x}: section {value} is one .sframe too many")
            }
            Self::NoRoom { section, offset, size } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: {size:#x} bytes leave no room for program headers and cannot be moved"
                )
            }
            Self::NoWay { offset, size } => {
                write!(f, "offset {offset:#x}: no room for more program headers than these {size:#x} bytes")
            }
            Self::UnknownBytes { offset, value } => {
                write!(
                    f,
                    "offset {offset:#x}: bytes of no section after the program headers (value {value:#x})"
                )
            }
            Self::Reference { section, offset, value } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: refers to {value:#x} in a section that has to move"
                )
            }
            Self::NoSymbolTable => f.write_str("offset 0x28: an object without a symbol table"),
            Self::NoSectionNames { value } => {
                write!(f, "offset 0x3e: section {value} does not hold the names of sections")
            }
            Self::ObjectSegments { offset, value } => {
                write!(f, "offset {offset:#x}: {value} program headers in an object")
            }
            Self::Start { offset, value } => {
                write!(
                    f,
                    "section .sframe: offset {offset:#x}: no field of a function's start in section {value}"
                )
            }
            Self::TableType { offset, value } => {
                write!(f, "section .sframe: offset {offset:#x}: type {value:#x} is not that of a table")
            }
            Self::SymbolNumbers { section, offset, value } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: has numbers of symbols, which change, and its type {value:#x} is not supported"
                )
            }
            Self::TableReference { section, offset, value } => {
                write!(
                    f,
                    "section {section}: offset {offset:#x}: refers to the .sframe that would be removed (number {value})"
                )
            }
            Self::TableSymbol { value } => {
                write!(f, "symbol {value}, which is not local, lies in the .sframe that would be removed")
            }
            Self::ExtendedIndex { value } => {
                write!(
                    f,
                    "section {value} needs a symbol, and there is no SHT_SYMTAB_SHNDX section for its number"
                )
            }
            Self::Overlap { offset, size } => {
                write!(f, "offset {offset:#x}: {size:#x} bytes belong to several things that would change")
            }
            Self::Address { value, size } => {
                write!(f, "a table of {size:#x} bytes has no place at address {value:#x}")
            }
        }
    }
}

impl core::error::Error for EmbedError {}
