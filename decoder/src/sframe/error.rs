//! Errors of a section.

use cfipack_format::SectionOffset;

cfipack_format::errors! {
    /// The reason why a section, a function or a row cannot be read. Offsets count from the section's start,
    /// and values are as stored.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Error {
        /// The section has fewer bytes than a header.
        #[error("{len} bytes are too few for a header of 28")]
        TooShort {
            /// The number of bytes.
            len: usize,
        },
        /// The first two bytes are 0xdee2 in neither byte order.
        #[error("magic bytes {:02x} {:02x} are not 0xdee2", value[0], value[1])]
        Magic {
            /// The two bytes.
            value: [u8; 2],
        },
        /// The version is not 1, 2 or 3.
        #[error("offset 0x2: unknown version {value}")]
        Version {
            /// The value as stored.
            value: u8,
        },
        /// The header has a flag that the version does not define.
        #[error("offset 0x3: unknown flags {value:#04x}")]
        Flags {
            /// All flags.
            value: u8,
        },
        /// The ABI is not 1, 2, 3 or 4.
        #[error("offset 0x4: unknown ABI {value}")]
        Abi {
            /// The value as stored.
            value: u8,
        },
        /// The byte order of the magic is not the byte order of the ABI.
        #[error("offset 0x4: ABI {abi} has the other byte order")]
        ByteOrder {
            /// The ABI's number.
            abi: u8,
        },
        /// The fixed offset of the return address is not the ABI's: -8 on amd64, otherwise 0.
        #[error("offset 0x6: fixed return address offset {value} is not the ABI's")]
        FixedReturnAddress {
            /// The value as stored.
            value: i8,
        },
        /// The function index reaches into the FREs or beyond the section.
        #[error("function index of {num_fdes} entries at {offset:#x} is out of bounds")]
        FunctionIndex {
            /// The offset of the index.
            offset: u64,
            /// The number of FDEs that the header claims.
            num_fdes: u32,
        },
        /// The FRE sub-section reaches beyond the section.
        #[error("{len} bytes of FREs at {offset:#x} are out of bounds")]
        FreSubSection {
            /// The offset of its start.
            offset: u64,
            /// The number of bytes that the header claims.
            len: u32,
        },
        /// A byte other than zero follows the table.
        #[error("offset {offset}: byte {value:#04x} after the table")]
        Trailing {
            /// The offset of the byte.
            offset: SectionOffset,
            /// The byte.
            value: u8,
        },
        /// The section has no function with this index.
        #[error("no function {index}")]
        NoFunction {
            /// The index that the caller asked for.
            index: usize,
        },
        /// The header's number of FREs is not the sum over the functions.
        #[error("offset 0xc: number of FREs is {value}, the functions have {sum}")]
        NumFres {
            /// The number in the header.
            value: u32,
            /// The sum.
            sum: u64,
        },
        /// The index is declared sorted, but this FDE starts before the FDE before it.
        #[error("offset {offset}: FDE starts before the previous one in a sorted index")]
        NotSorted {
            /// The offset of the FDE.
            offset: SectionOffset,
        },
        /// A function's FREs (version 3: its attribute) lie beyond the FRE sub-section.
        #[error("offset {offset}: FRE offset {value:#x} is out of bounds")]
        FreOffset {
            /// The offset of the FDE.
            offset: SectionOffset,
            /// The offset into the FRE sub-section.
            value: u32,
        },
        /// The function claims more FREs than the rest of the sub-section can hold.
        #[error("offset {offset}: {value} FREs are more than the section holds")]
        FreCount {
            /// The offset of the FDE (version 3: of the attribute).
            offset: SectionOffset,
            /// The number of FREs that the function claims.
            value: u32,
        },
        /// With this function, the functions have more FREs than a table of this length may have.
        #[error("offset {offset}: {sum} FREs up to here are too many for the table's length")]
        TooManyFres {
            /// The offset of the FDE.
            offset: SectionOffset,
            /// The number of FREs up to and including this function.
            sum: u64,
        },
        /// The FRE type is not 0, 1 or 2.
        #[error("offset {offset}: unknown FRE type in info byte {value:#04x}")]
        FreType {
            /// The offset of the FDE (version 3: of the attribute).
            offset: SectionOffset,
            /// The info byte.
            value: u8,
        },
        /// The FDE type is neither DEFAULT nor FLEX.
        #[error("offset {offset}: unknown FDE type in info byte {value:#04x}")]
        FdeType {
            /// The offset of the attribute.
            offset: SectionOffset,
            /// The second info byte.
            value: u8,
        },
        /// A PC-mask function that repeats every 0 bytes.
        #[error("offset {offset}: PC-mask function with a repetition size of 0")]
        RepSize {
            /// The offset of the FDE (version 3: of the attribute).
            offset: SectionOffset,
        },
        /// An FRE reaches beyond the sub-section.
        #[error("offset {offset}: FRE is cut off")]
        FreTruncated {
            /// The offset of the FRE.
            offset: SectionOffset,
        },
        /// An FRE starts before the FRE before it.
        #[error("offset {offset}: FRE start {value:#x} is before the previous one")]
        StartDecreases {
            /// The offset of the FRE.
            offset: SectionOffset,
            /// The start.
            value: u32,
        },
        /// An FRE starts beyond the end of its function, or in a PC-mask function beyond the end of a
        /// repetition.
        #[error("offset {offset}: FRE start {value:#x} is beyond the function's end")]
        StartBeyondEnd {
            /// The offset of the FRE.
            offset: SectionOffset,
            /// The start.
            value: u32,
        },
        /// An FRE's info byte has word size 3, or a bit without a meaning here. For example: SP base in a
        /// FLEX function, a signed return address on a machine other than AArch64, or a bit beside 0 words.
        #[error("offset {offset}: invalid FRE info byte {value:#04x}")]
        FreInfo {
            /// The offset of the FRE.
            offset: SectionOffset,
            /// The info byte.
            value: u8,
        },
        /// An FRE has a number of data words that the format does not define.
        #[error("offset {offset}: FRE with {value} data words")]
        WordCount {
            /// The offset of the FRE.
            offset: SectionOffset,
            /// The number.
            value: u8,
        },
        /// A FLEX control word is invalid: a reserved bit is set, it names a register where none is used, or
        /// the CFA is not based on a register.
        #[error("offset {offset}: invalid FLEX control word {value:#x}")]
        ControlWord {
            /// The offset of the FRE.
            offset: SectionOffset,
            /// The word.
            value: u32,
        },
        /// A register number of the CFA or the return address belongs to no architecture.
        #[error("offset {offset}: register number {value} does not exist")]
        Register {
            /// The offset of the FRE.
            offset: SectionOffset,
            /// The number.
            value: u32,
        },
        /// The memory for an index has fewer than [`Index::len_for`](super::Index::len_for) words.
        #[error("{len} words are too few for the index")]
        IndexMemory {
            /// The number of words in the memory.
            len: usize,
        },
    }
}
