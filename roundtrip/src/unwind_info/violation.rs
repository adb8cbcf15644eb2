//! Rules for `__unwind_info` and `__compact_unwind` that readers rely on and that a table may break.

use cfipack_decoder::compact_unwind::EncodingError;
use cfipack_decoder::unwind_info;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, ImageOffset, SectionOffset};

/// A rule that a table breaks. Offsets count from the start of its section.
///
/// Sources of the rules: LLVM 22's libunwind, dyld's `mach_o/CompactUnwind.cpp`, lldb and llvm-objdump 23
/// as readers; lld 23, ld64-956 and ld-1267 as writers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Violation {
    /// The table cannot be read at this place.
    Malformed(unwind_info::Error),
    /// The last index entry names a page. Readers take it for an ordinary entry.
    SentinelPage {
        /// The offset of the field.
        offset: SectionOffset,
        /// The page in the field.
        page: u32,
    },
    /// The sentinel lies more than one byte after the end of the code. The last entry then answers for addresses
    /// without code. (ld64 puts the sentinel one byte after the end.)
    SentinelBeyond {
        /// The offset of the sentinel's index entry.
        offset: SectionOffset,
        /// The sentinel's function.
        function: ImageOffset,
        /// The end of the code.
        end: Address,
    },
    /// An index entry does not start after the entry before it.
    IndexOrder {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
    },
    /// A page's first entry does not have the start that the index gives for the page.
    FirstEntry {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The start in the index.
        index: ImageOffset,
    },
    /// An entry starts after the sentinel. Readers look for entries before the sentinel, so they find no entry for this
    /// function.
    AfterSentinel {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The sentinel's function.
        sentinel: ImageOffset,
    },
    /// A page has no entries.
    NoEntries {
        /// The offset of the page.
        offset: SectionOffset,
    },
    /// Two entries start at the same address, and both or neither have unwind information. Readers never find the first
    /// entry. This is a warning: ld64 writes these pairs for aliases.
    Shared {
        /// The offset of the first entry.
        offset: SectionOffset,
        /// The function at which both entries start.
        function: ImageOffset,
    },
    /// Two entries start at the same address, and only one of them has unwind information. Readers take the last entry.
    /// If it has no unwind information, the function cannot be unwound. Otherwise this is a warning: ld-prime writes
    /// such pairs.
    NullShared {
        /// The offset of the first entry.
        offset: SectionOffset,
        /// The function at which both entries start.
        function: ImageOffset,
        /// True if the last entry has no unwind information.
        is_last: bool,
    },
    /// An entry starts within a function of the CFI, and no entry before it starts in this function. So the entry of an
    /// earlier function answers for the function's start. Unwinding can still be right at every PC. This is a warning:
    /// the CFI may describe the code of several symbols as one function.
    WithinFunction {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The start of the entry.
        function: ImageOffset,
        /// The start of the CFI's function.
        start: Address,
    },
    /// An LSDA record is not after the record before it.
    LsdaOrder {
        /// The offset of the record.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
    },
    /// An LSDA record is in the part of the LSDA index for a page, but its function is not in this page.
    LsdaPage {
        /// The offset of the record.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The page, from 0.
        page: usize,
    },
    /// No entry with an LSDA flag belongs to this LSDA record. This is a warning for an entry in DWARF mode: lld writes
    /// a record for it, and the FDE has the LSDA too.
    LsdaOrphan {
        /// The offset of the record.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// True if the entry is in DWARF mode.
        is_dwarf: bool,
    },
    /// A personality's slot is not among the pointers that the loader fills in.
    PersonalitySlot {
        /// The offset of the personality in the table.
        offset: SectionOffset,
        /// The slot.
        slot: ImageOffset,
    },
    /// An encoding has no meaning.
    Encoding {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The error.
        error: EncodingError,
    },
    /// An encoding has bits set that its mode leaves unused.
    UnusedBits {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// In frame mode of x86, a register's slot is not below the frame pointer.
    FrameSlot {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// In frameless mode of x86, the stack has no room for the registers and the return address.
    FramelessSize {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// In indirect mode, the encoding does not point at a `sub $imm32`.
    NoImmediate {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// An entry has arm64's frameless mode with saved registers, and every reader takes it differently. This is a
    /// warning: compilers write it, and their code stores the registers from the CFA down.
    FramelessPairs {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// An entry has DWARF mode, but no record of `__eh_frame` starts at its offset.
    DwarfRecord {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The offset into `__eh_frame`.
        record: u32,
    },
    /// An entry has DWARF mode, but there is no FDE for the function from its offset on.
    DwarfFde {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The offset into `__eh_frame`.
        record: u32,
    },
    /// A row of `__compact_unwind` has the number of a personality. Only a linker may set this number.
    RowPersonality {
        /// The offset of the row, in `__compact_unwind`.
        offset: SectionOffset,
        /// The function's address.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// A row of `__compact_unwind` has an LSDA without the flag for it, or the flag without an LSDA.
    RowLsda {
        /// The offset of the row, in `__compact_unwind`.
        offset: SectionOffset,
        /// The function's address.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// A row of `__compact_unwind` starts within another row.
    RowOverlap {
        /// The offset of the row, in `__compact_unwind`.
        offset: SectionOffset,
        /// The function's address.
        function: ImageOffset,
    },
    /// `LC_FUNCTION_STARTS` has a function for which the table has no entry. This is a warning: readers then look for
    /// an FDE.
    Uncovered {
        /// The function.
        function: Address,
    },
}

impl Violation {
    /// Returns whether the table works in spite of this violation.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::Shared { .. }
                | Self::NullShared { is_last: false, .. }
                | Self::WithinFunction { .. }
                | Self::LsdaOrphan { is_dwarf: true, .. }
                | Self::FramelessPairs { .. }
                | Self::Uncovered { .. }
        )
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
            Self::FramelessPairs { .. } => "frameless-pairs",
            Self::DwarfRecord { .. } => "dwarf-record",
            Self::DwarfFde { .. } => "dwarf-fde",
            Self::RowPersonality { .. } => "row-personality",
            Self::RowLsda { .. } => "row-lsda",
            Self::RowOverlap { .. } => "row-overlap",
            Self::Uncovered { .. } => "uncovered",
        }
    }
}
