//! Rules for `__unwind_info` and `__compact_unwind` that readers rely on and that a table may break.

use cfipack_decoder::compact_unwind::EncodingError;
use cfipack_decoder::unwind_info;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, ImageOffset, SectionOffset};

cfipack_format::messages! {
    /// A rule that a table breaks. Offsets count from the start of its section.
    ///
    /// Sources of the rules: LLVM 22's libunwind, dyld's `mach_o/CompactUnwind.cpp`, lldb and llvm-objdump 23
    /// as readers; lld 23, ld64-956 and ld-1267 as writers.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Violation {
        /// The table cannot be read at this place.
        #[error("{error}")]
        Malformed(error: unwind_info::Error),
        /// The last index entry names a page. Readers take it for an ordinary entry.
        #[error("offset {offset}: the sentinel names a page at {page:#x}")]
        SentinelPage {
            /// The offset of the field.
            offset: SectionOffset,
            /// The page in the field.
            page: u32,
        },
        /// The sentinel lies more than one byte after the end of the code. The last entry then answers for addresses
        /// without code. (ld64 puts the sentinel one byte after the end.)
        #[error("offset {offset}: the sentinel {function} lies beyond the code, which ends at {end}")]
        SentinelBeyond {
            /// The offset of the sentinel's index entry.
            offset: SectionOffset,
            /// The sentinel's function.
            function: ImageOffset,
            /// The end of the code.
            end: Address,
        },
        /// An index entry does not start after the entry before it.
        #[error("offset {offset}: index entry of function {function} does not ascend")]
        IndexOrder {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
        },
        /// A page's first entry does not have the start that the index gives for the page.
        #[error("offset {offset}: the page's first entry is of function {function}, and the index has {index}")]
        FirstEntry {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The start in the index.
            index: ImageOffset,
        },
        /// An entry starts at the sentinel or after it. Readers look for entries before the sentinel, so they find no entry for
        /// this function.
        #[error(
            "offset {offset}: the entry of function {function} is not before the sentinel {sentinel}, so no reader looks for it"
        )]
        AfterSentinel {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The sentinel's function.
            sentinel: ImageOffset,
        },
        /// A page has no entries.
        #[error("offset {offset}: a page without entries")]
        NoEntries {
            /// The offset of the page.
            offset: SectionOffset,
        },
        /// Two entries start at the same address, and both or neither have unwind information. Readers never find the
        /// first entry. This is a warning: ld64 writes these pairs for aliases.
        #[error("offset {offset}: the next entry is of function {function} too")]
        Shared {
            /// The offset of the first entry.
            offset: SectionOffset,
            /// The function at which both entries start.
            function: ImageOffset,
        },
        /// Two entries start at the same address, and only one of them has unwind information. Readers take the last
        /// entry. If it has no unwind information, the function cannot be unwound. Otherwise this is a warning:
        /// ld-prime writes such pairs.
        #[error(
            "offset {offset}: function {function} has {}",
            if is_last {
                "unwind information here, and none in its last entry, which readers find"
            } else {
                "no unwind information here; the next entry has it"
            }
        )]
        NullShared {
            /// The offset of the first entry.
            offset: SectionOffset,
            /// The function at which both entries start.
            function: ImageOffset,
            /// True if the last entry has no unwind information.
            is_last: bool,
        },
        /// An entry starts within a function of the CFI, and no entry before it starts in this function. So the entry
        /// of an earlier function answers for the function's start. Unwinding can still be right at every PC. This is a
        /// warning: the CFI may describe the code of several symbols as one function.
        #[error(
            "offset {offset}: the entry of function {function} starts within a function at {start}, which has no entry of its own"
        )]
        WithinFunction {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The start of the entry.
            function: ImageOffset,
            /// The start of the CFI's function.
            start: Address,
        },
        /// An LSDA record is not after the record before it.
        #[error("offset {offset}: LSDA of function {function} does not ascend")]
        LsdaOrder {
            /// The offset of the record.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
        },
        /// An LSDA record is in the part of the LSDA index for a page, but its function is not in this page.
        #[error("offset {offset}: LSDA of function {function}, which is not in page {page}")]
        LsdaPage {
            /// The offset of the record.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The page, from 0.
            page: usize,
        },
        /// No entry with an LSDA flag belongs to this LSDA record. This is a warning for an entry in DWARF mode: lld
        /// writes a record for it, and the FDE has the LSDA too.
        #[error(
            "offset {offset}: LSDA of function {function}, {}",
            if is_dwarf {
                "whose FDE has it too"
            } else {
                "and no entry there has the LSDA flag"
            }
        )]
        LsdaOrphan {
            /// The offset of the record.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// True if the entry is in DWARF mode.
            is_dwarf: bool,
        },
        /// A personality's slot is not among the pointers that the loader fills in.
        #[error("offset {offset}: personality slot {slot} is not among the loader's pointers")]
        PersonalitySlot {
            /// The offset of the personality in the table.
            offset: SectionOffset,
            /// The slot.
            slot: ImageOffset,
        },
        /// An encoding has no meaning.
        #[error("offset {offset}: function {function}: {error}")]
        Encoding {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The error.
            error: EncodingError,
        },
        /// An encoding has bits set that its mode leaves unused.
        #[error("offset {offset}: function {function}: encoding {encoding} has unused bits set")]
        UnusedBits {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// In frame mode of x86, a register's slot is not below the frame pointer.
        #[error(
            "offset {offset}: function {function}: encoding {encoding}: a register is not below the frame pointer"
        )]
        FrameSlot {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// In frameless mode of x86, the stack has no room for the registers and the return address.
        #[error(
            "offset {offset}: function {function}: encoding {encoding}: the stack is too small for its registers"
        )]
        FramelessSize {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// In indirect mode, the encoding does not point at a `sub $imm32`.
        #[error(
            "offset {offset}: function {function}: encoding {encoding}: no stack adjustment by an imm32 at byte {}",
            encoding.immediate_at()
        )]
        NoImmediate {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// In arm64's mode for return addresses that are signed with a PC, the encoding does not point at an instruction
        /// that signs one. Unwinders then check the signature with the address of another instruction.
        #[error(
            "offset {offset}: function {function}: encoding {encoding}: no instruction at byte {} signs the return address",
            encoding.signing_at()
        )]
        NoSigning {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// An entry has arm64's frameless mode with saved registers, and every reader takes it differently. This is a
        /// warning: compilers write it, and their code stores the registers from the CFA down.
        #[error(
            "offset {offset}: function {function}: encoding {encoding}: readers disagree on where a frameless function has its registers"
        )]
        FramelessPairs {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// An entry has DWARF mode, but no record of `__eh_frame` starts at its offset.
        #[error("offset {offset}: function {function}: no record of __eh_frame at {record:#x}")]
        DwarfRecord {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The offset into `__eh_frame`.
            record: u32,
        },
        /// An entry has DWARF mode, but there is no FDE for the function from its offset on.
        #[error("offset {offset}: function {function}: no FDE in __eh_frame from {record:#x} on")]
        DwarfFde {
            /// The offset of the entry.
            offset: SectionOffset,
            /// The function.
            function: ImageOffset,
            /// The offset into `__eh_frame`.
            record: u32,
        },
        /// A row of `__compact_unwind` has the number of a personality. Only a linker may set this number.
        #[error("offset {offset}: function {function}: encoding {encoding} of an object has a personality's number")]
        RowPersonality {
            /// The offset of the row, in `__compact_unwind`.
            offset: SectionOffset,
            /// The function's address.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// A row of `__compact_unwind` has an LSDA without the flag for it, or the flag without an LSDA.
        #[error(
            "offset {offset}: function {function}: encoding {encoding} has {}",
            if encoding.has_lsda() {
                "an LSDA, and the row none"
            } else {
                "no LSDA, and the row one"
            }
        )]
        RowLsda {
            /// The offset of the row, in `__compact_unwind`.
            offset: SectionOffset,
            /// The function's address.
            function: ImageOffset,
            /// The encoding.
            encoding: Encoding,
        },
        /// A row of `__compact_unwind` starts within another row.
        #[error("offset {offset}: the row of function {function} starts within another")]
        RowOverlap {
            /// The offset of the row, in `__compact_unwind`.
            offset: SectionOffset,
            /// The function's address.
            function: ImageOffset,
        },
        /// A row of `__compact_unwind` has another length than its function, or than the function's part up to the next row.
        /// Linkers ignore the length of nearly all rows, and remove the function's FDE.
        #[error("offset {offset}: the row of function {function} has {length} bytes, and its code {size}")]
        RowLength {
            /// The offset of the row, in `__compact_unwind`.
            offset: SectionOffset,
            /// The function's address.
            function: ImageOffset,
            /// The length in the row, in bytes.
            length: u64,
            /// The number of bytes for which linkers use the row.
            size: u64,
        },
        /// A function of an object has a symbol inside that has no row. ld64.lld takes the symbol for a function without
        /// unwind information. A symbol at the function's start does the same if it belongs to the code before.
        #[error(
            "function {function}: {symbol}, and ld64.lld gives the code from there no unwind information",
            symbol = if symbol == function {
                "a second symbol at its start belongs to the code before".to_owned()
            } else {
                format!("the symbol at {symbol} has no row")
            }
        )]
        SymbolInside {
            /// The function's address.
            function: ImageOffset,
            /// The address of the first such symbol.
            symbol: ImageOffset,
        },
        /// `LC_FUNCTION_STARTS` has a function for which the table has no entry. This is a warning: readers then look
        /// for an FDE.
        #[error("function {function} has no entry")]
        Uncovered {
            /// The function.
            function: Address,
        },
    }
}

impl Violation {
    /// Returns whether the table works in spite of this violation.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::NullShared { is_last, .. } => !is_last,
            Self::LsdaOrphan { is_dwarf, .. } => *is_dwarf,
            Self::Shared { .. }
            | Self::WithinFunction { .. }
            | Self::FramelessPairs { .. }
            | Self::Uncovered { .. } => true,
            Self::Malformed(_)
            | Self::SentinelPage { .. }
            | Self::SentinelBeyond { .. }
            | Self::IndexOrder { .. }
            | Self::FirstEntry { .. }
            | Self::AfterSentinel { .. }
            | Self::NoEntries { .. }
            | Self::LsdaOrder { .. }
            | Self::LsdaPage { .. }
            | Self::PersonalitySlot { .. }
            | Self::Encoding { .. }
            | Self::UnusedBits { .. }
            | Self::FrameSlot { .. }
            | Self::FramelessSize { .. }
            | Self::NoImmediate { .. }
            | Self::NoSigning { .. }
            | Self::DwarfRecord { .. }
            | Self::DwarfFde { .. }
            | Self::RowPersonality { .. }
            | Self::RowLsda { .. }
            | Self::RowOverlap { .. }
            | Self::RowLength { .. }
            | Self::SymbolInside { .. } => false,
        }
    }

    /// Returns the function of a row of `__compact_unwind`, if another row for it can mend the violation.
    pub fn function_of_row(&self) -> Option<ImageOffset> {
        match self {
            Self::Encoding { function, .. }
            | Self::UnusedBits { function, .. }
            | Self::FrameSlot { function, .. }
            | Self::FramelessSize { function, .. }
            | Self::NoImmediate { function, .. }
            | Self::NoSigning { function, .. }
            | Self::RowPersonality { function, .. }
            | Self::RowLsda { function, .. }
            | Self::RowOverlap { function, .. }
            | Self::RowLength { function, .. } => Some(*function),
            _ => None,
        }
    }

    /// Returns a short name for counting, with words joined by `-`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::SentinelPage { .. } => "sentinel-page",
            Self::SentinelBeyond { .. } => "sentinel-beyond-code",
            Self::IndexOrder { .. } => "index-order",
            Self::FirstEntry { .. } => "first-entry",
            Self::AfterSentinel { .. } => "after-sentinel",
            Self::NoEntries { .. } => "no-entries",
            Self::Shared { .. } => "shared-address",
            Self::NullShared { .. } => "null-shares-address",
            Self::WithinFunction { .. } => "within-function",
            Self::LsdaOrder { .. } => "lsda-order",
            Self::LsdaPage { .. } => "lsda-page",
            Self::LsdaOrphan { .. } => "lsda-orphan",
            Self::PersonalitySlot { .. } => "personality-slot",
            Self::Encoding { .. } => "encoding",
            Self::UnusedBits { .. } => "unused-bits",
            Self::FrameSlot { .. } => "frame-slot",
            Self::FramelessSize { .. } => "frameless-size",
            Self::NoImmediate { .. } => "no-immediate",
            Self::NoSigning { .. } => "no-signing",
            Self::FramelessPairs { .. } => "frameless-pairs",
            Self::DwarfRecord { .. } => "dwarf-record",
            Self::DwarfFde { .. } => "dwarf-fde",
            Self::RowPersonality { .. } => "row-personality",
            Self::RowLsda { .. } => "row-lsda",
            Self::RowOverlap { .. } => "row-overlap",
            Self::RowLength { .. } => "row-length",
            Self::SymbolInside { .. } => "symbol-inside",
            Self::Uncovered { .. } => "uncovered",
        }
    }
}
