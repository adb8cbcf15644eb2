//! Errors of a section.

use core::fmt;

use cfipack_format::SectionOffset;

/// The reason why a section, a function or a row cannot be read. Offsets count from the section's start, and
/// values are as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The section has fewer bytes than a header.
    TooShort {
        /// The number of bytes.
        len: usize,
    },
    /// The first two bytes are 0xdee2 in neither byte order.
    Magic {
        /// The two bytes.
        value: [u8; 2],
    },
    /// The version is not 1, 2 or 3.
    Version {
        /// The value as stored.
        value: u8,
    },
    /// The header has a flag that the version does not define.
    Flags {
        /// All flags.
        value: u8,
    },
    /// The ABI is not 1, 2, 3 or 4.
    Abi {
        /// The value as stored.
        value: u8,
    },
    /// The byte order of the magic is not the byte order of the ABI.
    ByteOrder {
        /// The ABI's number.
        abi: u8,
    },
    /// The fixed offset of the return address is not the ABI's: -8 on amd64, otherwise 0.
    FixedReturnAddress {
        /// The value as stored.
        value: i8,
    },
    /// The function index reaches into the FREs or beyond the section.
    FunctionIndex {
        /// The offset of the index.
        offset: u64,
        /// The number of FDEs that the header claims.
        num_fdes: u32,
    },
    /// The FRE sub-section reaches beyond the section.
    FreSubSection {
        /// The offset of its start.
        offset: u64,
        /// The number of bytes that the header claims.
        len: u32,
    },
    /// A byte other than zero follows the table.
    Trailing {
        /// The offset of the byte.
        offset: SectionOffset,
        /// The byte.
        value: u8,
    },
    /// The section has no function with this index.
    NoFunction {
        /// The index that the caller asked for.
        index: usize,
    },
    /// The header's number of FREs is not the sum over the functions.
    NumFres {
        /// The number in the header.
        value: u32,
        /// The sum.
        sum: u64,
    },
    /// The index is declared sorted, but this FDE starts before the FDE before it.
    NotSorted {
        /// The offset of the FDE.
        offset: SectionOffset,
    },
    /// A function's FREs (version 3: its attribute) lie beyond the FRE sub-section.
    FreOffset {
        /// The offset of the FDE.
        offset: SectionOffset,
        /// The offset into the FRE sub-section.
        value: u32,
    },
    /// The function claims more FREs than the rest of the sub-section can hold.
    FreCount {
        /// The offset of the FDE (version 3: of the attribute).
        offset: SectionOffset,
        /// The number of FREs that the function claims.
        value: u32,
    },
    /// With this function, the functions have more FREs than a table of this length may have.
    TooManyFres {
        /// The offset of the FDE.
        offset: SectionOffset,
        /// The number of FREs up to and including this function.
        sum: u64,
    },
    /// The FRE type is not 0, 1 or 2.
    FreType {
        /// The offset of the FDE (version 3: of the attribute).
        offset: SectionOffset,
        /// The info byte.
        value: u8,
    },
    /// The FDE type is neither DEFAULT nor FLEX.
    FdeType {
        /// The offset of the attribute.
        offset: SectionOffset,
        /// The second info byte.
        value: u8,
    },
    /// A PC-mask function that repeats every 0 bytes.
    RepSize {
        /// The offset of the FDE (version 3: of the attribute).
        offset: SectionOffset,
    },
    /// An FRE reaches beyond the sub-section.
    FreTruncated {
        /// The offset of the FRE.
        offset: SectionOffset,
    },
    /// An FRE starts before the FRE before it.
    StartDecreases {
        /// The offset of the FRE.
        offset: SectionOffset,
        /// The start.
        value: u32,
    },
    /// An FRE starts beyond the end of its function, or in a PC-mask function beyond the end of a repetition.
    StartBeyondEnd {
        /// The offset of the FRE.
        offset: SectionOffset,
        /// The start.
        value: u32,
    },
    /// An FRE's info byte has word size 3, or a bit without a meaning here. For example: SP base in a FLEX
    /// function, a signed return address on a machine other than AArch64, or a bit beside 0 words.
    FreInfo {
        /// The offset of the FRE.
        offset: SectionOffset,
        /// The info byte.
        value: u8,
    },
    /// An FRE has a number of data words that the format does not define.
    WordCount {
        /// The offset of the FRE.
        offset: SectionOffset,
        /// The number.
        value: u8,
    },
    /// A FLEX control word is invalid: a reserved bit is set, it names a register where none is used, or the
    /// CFA is not based on a register.
    ControlWord {
        /// The offset of the FRE.
        offset: SectionOffset,
        /// The word.
        value: u32,
    },
    /// A register number of the CFA or the return address belongs to no architecture.
    Register {
        /// The offset of the FRE.
        offset: SectionOffset,
        /// The number.
        value: u32,
    },
    /// The memory for an index has fewer than [`Index::len_for`](super::Index::len_for) words.
    IndexMemory {
        /// The number of words in the memory.
        len: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { len } => write!(f, "{len} bytes are too few for a header of 28"),
            Self::Magic { value: [a, b] } => write!(f, "magic bytes {a:02x} {b:02x} are not 0xdee2"),
            Self::Version { value } => write!(f, "offset 0x2: unknown version {value}"),
            Self::Flags { value } => write!(f, "offset 0x3: unknown flags {value:#04x}"),
            Self::Abi { value } => write!(f, "offset 0x4: unknown ABI {value}"),
            Self::ByteOrder { abi } => write!(f, "offset 0x4: ABI {abi} has the other byte order"),
            Self::FixedReturnAddress { value } => {
                write!(f, "offset 0x6: fixed return address offset {value} is not the ABI's")
            }
            Self::FunctionIndex { offset, num_fdes } => {
                write!(f, "function index of {num_fdes} entries at {offset:#x} is out of bounds")
            }
            Self::FreSubSection { offset, len } => {
                write!(f, "{len} bytes of FREs at {offset:#x} are out of bounds")
            }
            Self::Trailing { offset, value } => {
                write!(f, "offset {offset}: byte {value:#04x} after the table")
            }
            Self::NoFunction { index } => write!(f, "no function {index}"),
            Self::NumFres { value, sum } => {
                write!(f, "offset 0xc: number of FREs is {value}, the functions have {sum}")
            }
            Self::NotSorted { offset } => {
                write!(f, "offset {offset}: FDE starts before the previous one in a sorted index")
            }
            Self::FreOffset { offset, value } => {
                write!(f, "offset {offset}: FRE offset {value:#x} is out of bounds")
            }
            Self::FreCount { offset, value } => {
                write!(f, "offset {offset}: {value} FREs are more than the section holds")
            }
            Self::TooManyFres { offset, sum } => {
                write!(f, "offset {offset}: {sum} FREs up to here are too many for the table's length")
            }
            Self::FreType { offset, value } => {
                write!(f, "offset {offset}: unknown FRE type in info byte {value:#04x}")
            }
            Self::FdeType { offset, value } => {
                write!(f, "offset {offset}: unknown FDE type in info byte {value:#04x}")
            }
            Self::RepSize { offset } => {
                write!(f, "offset {offset}: PC-mask function with a repetition size of 0")
            }
            Self::FreTruncated { offset } => write!(f, "offset {offset}: FRE is cut off"),
            Self::StartDecreases { offset, value } => {
                write!(f, "offset {offset}: FRE start {value:#x} is before the previous one")
            }
            Self::StartBeyondEnd { offset, value } => {
                write!(f, "offset {offset}: FRE start {value:#x} is beyond the function's end")
            }
            Self::FreInfo { offset, value } => {
                write!(f, "offset {offset}: invalid FRE info byte {value:#04x}")
            }
            Self::WordCount { offset, value } => {
                write!(f, "offset {offset}: FRE with {value} data words")
            }
            Self::ControlWord { offset, value } => {
                write!(f, "offset {offset}: invalid FLEX control word {value:#x}")
            }
            Self::Register { offset, value } => {
                write!(f, "offset {offset}: register number {value} does not exist")
            }
            Self::IndexMemory { len } => write!(f, "{len} words are too few for the index"),
        }
    }
}

impl core::error::Error for Error {}
