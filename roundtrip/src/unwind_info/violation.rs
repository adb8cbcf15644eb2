//! Rules that readers of `__unwind_info` and `__compact_unwind` rely on, and a table may break.

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
    /// The table cannot be read there.
    Malformed(unwind_info::Error),
    /// The last index entry names a page, which readers then take for one.
    SentinelPage {
        /// The offset of the field.
        offset: SectionOffset,
        /// The page that it names.
        page: u32,
    },
    /// The sentinel lies beyond the code, further than the byte by which ld64 does: the last entry then answers for
    /// addresses that have no code.
    SentinelBeyond {
        /// The offset of its index entry.
        offset: SectionOffset,
        /// The sentinel's function.
        function: ImageOffset,
        /// The end of the code.
        end: Address,
    },
    /// An index entry does not start above the one before it.
    IndexOrder {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
    },
    /// A page's first entry does not start where the page does by the index.
    FirstEntry {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The index's.
        index: ImageOffset,
    },
    /// An entry starts after the sentinel: readers look for entries before it, and find none of this function.
    AfterSentinel {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The sentinel's function.
        sentinel: ImageOffset,
    },
    /// A page without entries.
    NoEntries {
        /// The offset of the page.
        offset: SectionOffset,
    },
    /// Two entries start at one address, and both or none have unwind information: the first is not
    /// reachable. A warning: ld64 writes them for aliases.
    Shared {
        /// The offset of the first.
        offset: SectionOffset,
        /// The function that they start at.
        function: ImageOffset,
    },
    /// An entry without unwind information starts where one with it does. Readers take the last entry of an
    /// address: if that is the one without, the function cannot be unwound; otherwise it is a warning, since
    /// ld-prime writes such pairs.
    NullShared {
        /// The offset of the first.
        offset: SectionOffset,
        /// The function that they start at.
        function: ImageOffset,
        /// True if the last entry there has no unwind information.
        is_last: bool,
    },
    /// An entry starts within a function of the CFI, whose start has the entry of another function: unwinding can be
    /// right for every PC, and the start of the function is not. A warning: the CFI may describe code of several
    /// symbols as one function.
    WithinFunction {
        /// The offset of the entry.
        offset: SectionOffset,
        /// Start of the entry.
        function: ImageOffset,
        /// Start of the CFI's function.
        start: Address,
    },
    /// An LSDA record does not lie above the one before it.
    LsdaOrder {
        /// The offset of the record.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
    },
    /// An LSDA record is in the part of a page that does not have its function.
    LsdaPage {
        /// The offset of the record.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The page, from 0.
        page: usize,
    },
    /// An LSDA record that belongs to no entry with an LSDA flag. A warning for an entry in DWARF mode, for
    /// which lld writes them: the FDE has it, too.
    LsdaOrphan {
        /// The offset of the record.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// True if the entry is in DWARF mode.
        is_dwarf: bool,
    },
    /// A personality's slot does not lie among the pointers that the loader fills in.
    PersonalitySlot {
        /// The offset of the personality in the table.
        offset: SectionOffset,
        /// The slot.
        slot: ImageOffset,
    },
    /// An encoding that means nothing.
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
    /// Frame mode of x86: a register's slot is not below the frame pointer.
    FrameSlot {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// Frameless mode of x86: the stack has no room for the registers and the return address.
    FramelessSize {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// Indirect mode: the encoding points at no `sub $imm32`.
    NoImmediate {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// arm64's frameless mode with saved registers, which no two readers take alike. A warning: compilers
    /// write it, and their code stores the registers from the CFA down.
    FramelessPairs {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// DWARF mode with an offset at which no record of `__eh_frame` starts.
    DwarfRecord {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The offset into `__eh_frame`.
        record: u32,
    },
    /// DWARF mode, and no FDE for the function from the given offset on.
    DwarfFde {
        /// The offset of the entry.
        offset: SectionOffset,
        /// The function.
        function: ImageOffset,
        /// The offset into `__eh_frame`.
        record: u32,
    },
    /// A row of `__compact_unwind` has a personality's number, which is the linker's to give.
    RowPersonality {
        /// The offset of the row, in `__compact_unwind`.
        offset: SectionOffset,
        /// The function's address.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// A row of `__compact_unwind` has an LSDA and not the flag for it, or the flag and none.
    RowLsda {
        /// The offset of the row, in `__compact_unwind`.
        offset: SectionOffset,
        /// The function's address.
        function: ImageOffset,
        /// The encoding.
        encoding: Encoding,
    },
    /// A row of `__compact_unwind` starts within another.
    RowOverlap {
        /// The offset of the row, in `__compact_unwind`.
        offset: SectionOffset,
        /// The function's address.
        function: ImageOffset,
    },
    /// `LC_FUNCTION_STARTS` has a function for which the table has no entry. A warning: readers then
    /// look for an FDE.
    Uncovered {
        /// The function.
        function: Address,
    },
}

impl Violation {
    /// Returns whether a table can be like this and serve all the same.
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

    /// A short name for counting, words joined with `-`.
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
