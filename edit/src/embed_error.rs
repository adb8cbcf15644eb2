//! The reasons why a table cannot be put into a file or removed from it.

use cfipack_container::{Error, SectionName};

/// The reason why a file is not changed. It names the obstacle, its place in the file, and the value there.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EmbedError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] Error),
    /// The file is Mach-O. `.sframe` is for ELF.
    #[error("offset 0x0: a Mach-O file; .sframe belongs to ELF")]
    NotElf,
    /// The file is a relocatable object, and a linked file is needed.
    #[error("offset 0x10: a relocatable object, not a linked file")]
    Relocatable,
    /// The file is linked, and a relocatable object is needed.
    #[error("offset 0x10: a linked file, not a relocatable object")]
    Linked,
    /// A linked file has no section headers, so the meaning of its bytes is unknown.
    #[error("offset 0x28: a linked file without section headers")]
    NoSectionHeaders,
    /// A linked file has no segments to load.
    #[error("offset 0x20: a linked file without segments to load")]
    NoSegments,
    /// The file has debug information only. Its code is in another file.
    #[error("section {section}: offset {offset:#x}: {size:#x} bytes of code are not in the file")]
    NoContents {
        /// The section of code without bytes.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// There are bytes after everything that the headers describe, such as an archive that a program carries.
    #[error("offset {offset:#x}: {size:#x} bytes after all that the headers describe")]
    Overlay {
        /// The offset in the file.
        offset: u64,
        /// The number of bytes.
        size: u64,
    },
    /// The file has a signature of all bytes before it.
    #[error("offset {offset:#x}: a signature, which a change would break")]
    Signature {
        /// The offset in the file.
        offset: u64,
    },
    /// The loaded segments are not in ascending order of address.
    #[error("offset {offset:#x}: segment at {value:#x} is not in ascending order")]
    SegmentOrder {
        /// The program header's offset in the file.
        offset: u64,
        /// The `p_vaddr`.
        value: u64,
    },
    /// A segment has a physical address of its own, as in a kernel or firmware.
    #[error("offset {offset:#x}: segment with the physical address {value:#x}")]
    PhysicalAddress {
        /// The program header's offset in the file.
        offset: u64,
        /// The `p_paddr`.
        value: u64,
    },
    /// The file has more `.sframe` sections than linkers leave.
    #[error("offset {offset:#x}: section {value} is one .sframe too many")]
    SeveralTables {
        /// The offset of the first `.sframe` that is too many, in the file.
        offset: u64,
        /// The index of its section.
        value: u64,
    },
    /// A section leaves no room for a program header.
    #[error(
        "section {section}: offset {offset:#x}: {size:#x} bytes leave no room for program headers and cannot be moved"
    )]
    NoRoom {
        /// The section in the way.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// No way that suits the file makes room for a program header.
    #[error("offset {offset:#x}: no room for more program headers than these {size:#x} bytes")]
    NoWay {
        /// The offset of the program headers in the file.
        offset: u64,
        /// The size.
        size: u64,
    },
    /// There are unknown bytes after the program headers that belong to no section.
    #[error("offset {offset:#x}: bytes of no section after the program headers (value {value:#x})")]
    UnknownBytes {
        /// The offset of the first unknown byte in the file.
        offset: u64,
        /// The byte and up to 7 that follow, as a little-endian number.
        value: u64,
    },
    /// A reference of an unknown kind leads into a section that has to move. It is a relocation, a symbol or an entry
    /// of the dynamic section.
    #[error("section {section}: offset {offset:#x}: refers to {value:#x} in a section that has to move")]
    Reference {
        /// The section with the reference.
        section: SectionName,
        /// The entry's offset in the file.
        offset: u64,
        /// The address that it refers to.
        value: u64,
    },
    /// The object has no symbol table, which relocations need.
    #[error("offset 0x28: an object without a symbol table")]
    NoSymbolTable,
    /// The sections of the object have no names.
    #[error("offset 0x3e: section {value} does not hold the names of sections")]
    NoSectionNames {
        /// The index of the section that should have the names.
        value: u64,
    },
    /// The object has program headers.
    #[error("offset {offset:#x}: {value} program headers in an object")]
    ObjectSegments {
        /// The offset in the file.
        offset: u64,
        /// The number of program headers.
        value: u64,
    },
    /// The start of a function is not in the table, or is in a section that does not exist.
    #[error("section .sframe: offset {offset:#x}: no field of a function's start in section {value}")]
    Start {
        /// The offset in the table.
        offset: u64,
        /// The section's index.
        value: u64,
    },
    /// A section of an object has the name of a table, and a type that no table has.
    #[error("section .sframe: offset {offset:#x}: type {value:#x} is not that of a table")]
    TableType {
        /// The offset in the file.
        offset: u64,
        /// The type.
        value: u32,
    },
    /// A section has symbol numbers in an unknown form. The numbers would have to change.
    #[error(
        "section {section}: offset {offset:#x}: has numbers of symbols, which change, and its type {value:#x} is not supported"
    )]
    SymbolNumbers {
        /// The section.
        section: SectionName,
        /// The offset in the file.
        offset: u64,
        /// The type.
        value: u64,
    },
    /// A section or a relocation refers to the table that would be removed.
    #[error(
        "section {section}: offset {offset:#x}: refers to the .sframe that would be removed (number {value})"
    )]
    TableReference {
        /// The section.
        section: SectionName,
        /// The offset of the section or of the relocation in the file.
        offset: u64,
        /// The number of the table's section or symbol.
        value: u64,
    },
    /// The table that would be removed has a symbol that other objects can refer to.
    #[error("symbol {value}, which is not local, lies in the .sframe that would be removed")]
    TableSymbol {
        /// The number of the symbol.
        value: u64,
    },
    /// A section needs a symbol, but its number is too large for a symbol and the object has no `SHT_SYMTAB_SHNDX`
    /// section for large numbers.
    #[error("section {value} needs a symbol, and there is no SHT_SYMTAB_SHNDX section for its number")]
    ExtendedIndex {
        /// The section's number.
        value: u64,
    },
    /// A change would write bytes that belong to several parts of the file.
    #[error("offset {offset:#x}: {size:#x} bytes belong to several things that would change")]
    Overlap {
        /// The offset of the first of the bytes in the file.
        offset: u64,
        /// The number of bytes.
        size: u64,
    },
    /// The table does not fit into the address space after the last segment, or into the file.
    #[error("a table of {size:#x} bytes has no place at address {value:#x}")]
    Address {
        /// The address that it would have.
        value: u64,
        /// The length.
        size: u64,
    },
}
