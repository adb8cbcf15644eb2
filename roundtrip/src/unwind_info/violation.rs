//! Rules for `__unwind_info` and `__compact_unwind` that readers rely on and that a table may break.

use std::fmt;

use cfipack_decoder::compact_unwind::EncodingError;
use cfipack_decoder::unwind_info;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, ImageOffset, SectionOffset};

/// A place of a table where it breaks a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// The place: an entry, a row, an index entry, an LSDA record or a field. It counts from the start of its section. `None`
    /// if nothing in the table describes the function, or if the fault names its own place.
    pub offset: Option<SectionOffset>,
    /// The function that the place describes. In an object it is the function's address.
    pub function: Option<ImageOffset>,
    /// What is wrong.
    pub fault: Fault,
}

cfipack_format::messages! {
    /// What breaks a rule.
    ///
    /// Sources of the rules: LLVM 22's libunwind, dyld's `mach_o/CompactUnwind.cpp`, lldb and llvm-objdump 23
    /// as readers; lld 23, ld64-956 and ld-1267 as writers.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Fault {
        /// The table cannot be read at this place, or readers look for no entry there.
        #[error("{error}")]
        Malformed(error: unwind_info::Error),
        /// The last index entry names a page. Readers take it for an ordinary entry.
        #[error("the sentinel names a page at {page:#x}")]
        SentinelPage {
            /// The page in the field.
            page: u32,
        },
        /// The sentinel lies more than one byte after the end of the code. The last entry then answers for addresses
        /// without code. (ld64 puts the sentinel one byte after the end.)
        #[error("the sentinel lies beyond the code, which ends at {end}")]
        SentinelBeyond {
            /// The end of the code.
            end: Address,
        },
        /// An index entry does not start after the entry before it.
        #[error("its index entry does not ascend")]
        IndexOrder,
        /// A page's first entry does not have the start that the index gives for the page.
        #[error("it has the page's first entry, and the index has {index}")]
        FirstEntry {
            /// The start in the index.
            index: ImageOffset,
        },
        /// A page has no entries.
        #[error("a page without entries")]
        NoEntries,
        /// Two entries start at the same address, and both or neither have unwind information. Readers never find the
        /// first entry, which is at the offset. This is a warning: ld64 writes these pairs for aliases.
        #[error("the next entry is of this function too")]
        Shared,
        /// Two entries start at the same address, and only one of them has unwind information. Readers take the last
        /// entry. If it has no unwind information, the function cannot be unwound. Otherwise this is a warning:
        /// ld-prime writes such pairs.
        #[error(
            "it has {}",
            if is_last {
                "unwind information here, and none in its last entry, which readers find"
            } else {
                "no unwind information here; the next entry has it"
            }
        )]
        NullShared {
            /// True if the last entry has no unwind information.
            is_last: bool,
        },
        /// An entry starts within a function of the CFI, and no entry before it starts in this function. So the entry
        /// of an earlier function answers for the function's start. Unwinding can still be right at every PC. This is a
        /// warning: the CFI may describe the code of several symbols as one function.
        #[error("the entry starts within a function at {start}, which has no entry of its own")]
        WithinFunction {
            /// The start of the CFI's function.
            start: Address,
        },
        /// An LSDA record is not after the record before it.
        #[error("its LSDA does not ascend")]
        LsdaOrder,
        /// An LSDA record is in the part of the LSDA index for a page, but its function is not in this page.
        #[error("its LSDA is among those of page {page}, where it has no entry")]
        LsdaPage {
            /// The page, from 0.
            page: usize,
        },
        /// No entry with an LSDA flag belongs to this LSDA record. This is a warning for an entry in DWARF mode: lld
        /// writes a record for it, and the FDE has the LSDA too.
        #[error(
            "it has an LSDA, {}",
            if is_dwarf {
                "and its FDE has it too"
            } else {
                "and no entry with the LSDA flag"
            }
        )]
        LsdaOrphan {
            /// True if the entry is in DWARF mode.
            is_dwarf: bool,
        },
        /// A personality's slot is not among the pointers that the loader fills in.
        #[error("personality slot {slot} is not among the loader's pointers")]
        PersonalitySlot {
            /// The slot.
            slot: ImageOffset,
        },
        /// An encoding has no meaning.
        #[error("{error}")]
        Encoding(error: EncodingError),
        /// An encoding has bits set that its mode leaves unused.
        #[error("encoding {encoding} has unused bits set")]
        UnusedBits(encoding: Encoding),
        /// In frame mode of x86, a register's slot is not below the frame pointer.
        #[error("encoding {encoding}: a register is not below the frame pointer")]
        FrameSlot(encoding: Encoding),
        /// In frameless mode of x86, the stack has no room for the registers and the return address.
        #[error("encoding {encoding}: the stack is too small for its registers")]
        FramelessSize(encoding: Encoding),
        /// In indirect mode, the encoding does not point at a `sub $imm32`.
        #[error("encoding {encoding}: no stack adjustment by an imm32 at byte {}", encoding.immediate_at())]
        NoImmediate(encoding: Encoding),
        /// In arm64's mode for return addresses that are signed with a PC, the encoding does not point at an instruction
        /// that signs one. Unwinders then check the signature with the address of another instruction.
        #[error("encoding {encoding}: no instruction at byte {} signs the return address", encoding.signing_at())]
        NoSigning(encoding: Encoding),
        /// An entry has arm64's frameless mode with saved registers, and every reader takes it differently. This is a
        /// warning: compilers write it, and their code stores the registers from the CFA down.
        #[error("encoding {encoding}: readers disagree on where a frameless function has its registers")]
        FramelessPairs(encoding: Encoding),
        /// An entry has DWARF mode, but no record of `__eh_frame` starts at its offset.
        #[error("no record of __eh_frame at {record:#x}")]
        DwarfRecord {
            /// The offset into `__eh_frame`.
            record: u32,
        },
        /// An entry has DWARF mode, but there is no FDE for the function from its offset on.
        #[error("no FDE in __eh_frame from {record:#x} on")]
        DwarfFde {
            /// The offset into `__eh_frame`.
            record: u32,
        },
        /// A row of `__compact_unwind` has the number of a personality. Only a linker may set this number.
        #[error("encoding {encoding} of an object has a personality's number")]
        RowPersonality(encoding: Encoding),
        /// A row of `__compact_unwind` has an LSDA without the flag for it, or the flag without an LSDA.
        #[error(
            "encoding {encoding} has {}",
            if encoding.has_lsda() {
                "an LSDA, and the row none"
            } else {
                "no LSDA, and the row one"
            }
        )]
        RowLsda(encoding: Encoding),
        /// A row of `__compact_unwind` has an LSDA, and another personality than the CIE of the function's FDE.
        #[error("its row has another personality than its FDE")]
        RowOtherPersonality,
        /// A row of `__compact_unwind` is for no function of the object: the field for the function has no relocation, or
        /// leads to no section. ld64.lld ignores the row, or writes a table whose entries do not ascend.
        #[error("its row is for no function of this object")]
        RowStray,
        /// The personality or LSDA of a row of `__compact_unwind` has no relocation. ld64.lld ignores the field.
        #[error("its row has {}, and no relocation for it", if is_lsda { "an LSDA" } else { "a personality" })]
        RowPointer {
            /// True if the field is the LSDA, false if it is the personality.
            is_lsda: bool,
        },
        /// A row of `__compact_unwind` starts within another row.
        #[error("its row starts within another")]
        RowOverlap,
        /// A row of `__compact_unwind` has another length than its function, or than the function's part up to the next row.
        /// Linkers ignore the length of nearly all rows, and remove the function's FDE.
        #[error("its row has {length} bytes, and its code {size}")]
        RowLength {
            /// The length in the row, in bytes.
            length: u64,
            /// The number of bytes for which linkers use the row.
            size: u64,
        },
        /// A function of an object has a symbol inside that has no row. ld64.lld takes the symbol for a function without
        /// unwind information.
        #[error("the symbol at {symbol} has no row, and ld64.lld gives the code from there no unwind information")]
        SymbolInside {
            /// The address of the first such symbol.
            symbol: Address,
        },
        /// A function of an object has a second symbol at its start that belongs to the code before. ld64.lld gives the
        /// function the entry of this symbol.
        #[error(
            "a second symbol at its start belongs to the code before, and ld64.lld gives the code from there no unwind information"
        )]
        SymbolAtStart,
        /// `LC_FUNCTION_STARTS` has a function for which the table has no entry. This is a warning: readers then look
        /// for an FDE.
        #[error("it has no entry")]
        Uncovered,
    }
}

impl Violation {
    /// Creates the violation of a rule by the entry, the row or the record of a function.
    pub(super) const fn new(offset: SectionOffset, function: ImageOffset, fault: Fault) -> Self {
        Self { offset: Some(offset), function: Some(function), fault }
    }

    /// Returns whether the table works in spite of this violation.
    pub fn is_warning(&self) -> bool {
        matches!(
            self.fault,
            Fault::NullShared { is_last: false }
                | Fault::LsdaOrphan { is_dwarf: true }
                | Fault::Shared
                | Fault::WithinFunction { .. }
                | Fault::FramelessPairs(_)
                | Fault::Uncovered
        )
    }

    /// Returns the function of a row of `__compact_unwind`, if another row for it can mend the violation.
    pub fn function_of_row(&self) -> Option<ImageOffset> {
        let can_mend = matches!(
            self.fault,
            Fault::Encoding(_)
                | Fault::UnusedBits(_)
                | Fault::FrameSlot(_)
                | Fault::FramelessSize(_)
                | Fault::NoImmediate(_)
                | Fault::NoSigning(_)
                | Fault::RowPersonality(_)
                | Fault::RowLsda(_)
                | Fault::RowOtherPersonality
                | Fault::RowPointer { .. }
                | Fault::RowOverlap
                | Fault::RowLength { .. }
        );
        self.function.filter(|_| can_mend)
    }

    /// Returns a short name for counting, with words joined by `-`.
    pub fn name(&self) -> &'static str {
        match self.fault {
            Fault::Malformed(unwind_info::Error::AfterSentinel { .. }) => "after-sentinel",
            Fault::Malformed(_) => "malformed",
            Fault::SentinelPage { .. } => "sentinel-page",
            Fault::SentinelBeyond { .. } => "sentinel-beyond-code",
            Fault::IndexOrder => "index-order",
            Fault::FirstEntry { .. } => "first-entry",
            Fault::NoEntries => "no-entries",
            Fault::Shared => "shared-address",
            Fault::NullShared { .. } => "null-shares-address",
            Fault::WithinFunction { .. } => "within-function",
            Fault::LsdaOrder => "lsda-order",
            Fault::LsdaPage { .. } => "lsda-page",
            Fault::LsdaOrphan { .. } => "lsda-orphan",
            Fault::PersonalitySlot { .. } => "personality-slot",
            Fault::Encoding(_) => "encoding",
            Fault::UnusedBits(_) => "unused-bits",
            Fault::FrameSlot(_) => "frame-slot",
            Fault::FramelessSize(_) => "frameless-size",
            Fault::NoImmediate(_) => "no-immediate",
            Fault::NoSigning(_) => "no-signing",
            Fault::FramelessPairs(_) => "frameless-pairs",
            Fault::DwarfRecord { .. } => "dwarf-record",
            Fault::DwarfFde { .. } => "dwarf-fde",
            Fault::RowPersonality(_) => "row-personality",
            Fault::RowLsda(_) => "row-lsda",
            Fault::RowOtherPersonality => "row-other-personality",
            Fault::RowStray => "row-stray",
            Fault::RowPointer { .. } => "row-pointer",
            Fault::RowOverlap => "row-overlap",
            Fault::RowLength { .. } => "row-length",
            Fault::SymbolInside { .. } | Fault::SymbolAtStart => "symbol-inside",
            Fault::Uncovered => "uncovered",
        }
    }
}

impl From<unwind_info::Error> for Violation {
    fn from(error: unwind_info::Error) -> Self {
        Self { offset: None, function: None, fault: Fault::Malformed(error) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.offset {
            write!(f, "offset {offset}: ")?;
        }
        if let Some(function) = self.function {
            write!(f, "function {function}: ")?;
        }
        self.fault.fmt(f)
    }
}
