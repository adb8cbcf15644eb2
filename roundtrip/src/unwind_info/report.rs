//! The report of verifying a table of compact unwind: [`Report`] and its [`Difference`]s.

use std::collections::BTreeMap;
use std::fmt;

use cfipack_format::Address;

use crate::limited::Piece;
use crate::sframe::Unverified;

/// Functions are FDEs of the CFI, PCs are bytes of code.
///
/// `functions` is the sum of `equal`, `dwarf`, `scanned`, `different`, `missing` and `unjudged`; `pcs` that of
/// `pcs_equal`, `pcs_prologue`, `pcs_epilogue`, `pcs_dwarf`, `pcs_scanned`, `pcs_different`, `pcs_missing` and
/// `pcs_unjudged`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// Functions of the CFI; several FDEs for one address are one function.
    pub functions: u64,
    /// Functions in whose body their compact entries represent the CFI.
    pub equal: u64,
    /// Functions that the table leaves to their FDEs, where readers find them.
    pub dwarf: u64,
    /// Functions with a PC for which the table names an FDE after theirs, and no different or missing PC. LLVM's
    /// libunwind then scans all of `__eh_frame` and finds theirs; framehop does not.
    pub scanned: u64,
    /// Functions with a PC in their body for which the table encodes something else.
    pub different: u64,
    /// Functions with a PC for which the table has nothing though the CFI has a row, and no different PC.
    pub missing: u64,
    /// Functions that gimli cannot evaluate to their end, and that do not differ up to there; and those of
    /// which FDEs with one start disagree.
    pub unjudged: u64,
    /// FDEs that start where another one starts; not in `functions`.
    pub duplicates: u64,
    /// Compact entries with PCs that no function of the CFI has: nothing to compare them with.
    pub without_cfi: u64,
    /// PCs of the CFI's functions.
    pub pcs: u64,
    /// PCs for which both agree.
    pub pcs_equal: u64,
    /// PCs on the way into a body: the entry is not exact there, as is the nature of compact unwind.
    pub pcs_prologue: u64,
    /// The number of PCs on the way out.
    pub pcs_epilogue: u64,
    /// PCs that are left to FDEs.
    pub pcs_dwarf: u64,
    /// PCs for which the table names an FDE after the function's.
    pub pcs_scanned: u64,
    /// PCs for which they differ.
    pub pcs_different: u64,
    /// PCs for which the CFI has a row and the table has nothing.
    pub pcs_missing: u64,
    /// PCs that gimli cannot evaluate, or for which FDEs differ.
    pub pcs_unjudged: u64,
    /// PCs of compact entries that no function of the CFI has; not in `pcs`.
    pub pcs_without_cfi: u64,
    /// Functions with compact entries and another personality or LSDA than their FDEs have; they are equal
    /// or different by how they are unwound.
    pub handlers_different: u64,
    /// The reason why functions are missing or unjudged, and how many.
    pub reasons: BTreeMap<String, u64>,
    /// The first differences in order of address, and after them the first ranges of PCs that are missing;
    /// of each at most [`Options::limit`](crate::Options::limit).
    pub differences: Vec<Difference>,
    /// Differences and missing ranges after those.
    pub more_differences: u64,
    /// The first functions that are unjudged, with the reason in words; as many.
    pub unverified: Vec<Unverified>,
    /// Unjudged functions after those.
    pub more_unverified: u64,
}

impl Report {
    /// Returns whether the table has no wrong entry for the body of a function, and no wrong personality or LSDA.
    pub fn is_true(&self) -> bool {
        self.pcs_different == 0 && self.handlers_different == 0
    }

    /// Returns the number of PCs at which an answer of the table was compared with the CFI. It is 0 for an image
    /// without a table.
    pub fn pcs_compared(&self) -> u64 {
        self.pcs - self.pcs_missing - self.pcs_unjudged
    }

    /// Returns whether the table is true, and no function is missing, scanned for or unjudged.
    pub fn is_complete(&self) -> bool {
        self.is_true() && self.equal + self.dwarf == self.functions
    }

    /// Returns the reasons with their counts, the most frequent first. Reasons with the same count are sorted by name.
    pub fn reasons_by_count(&self) -> Vec<(&str, u64)> {
        crate::most_frequent_first(&self.reasons)
    }
}

/// Some PCs for which table and CFI differ in one way.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Start of the CFI's function.
    pub function: Address,
    /// First PC.
    pub start: Address,
    /// One past the last PC.
    pub end: Address,
    /// The description by both.
    pub words: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, start, end, words } = self;
        write!(f, "{start}..{end} in the function at {function}: {words}")
    }
}

/// A range of PCs in one function, for which the CFI has rows and the table has nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) function: Address,
    pub(super) start: Address,
    pub(super) end: Address,
    /// True if the table has an entry for these PCs, but without unwind information.
    pub(super) has_entry: bool,
}

impl Piece for Missing {
    fn continue_with(&mut self, next: &Self) -> bool {
        let is_continued =
            (self.end, self.function, self.has_entry) == (next.start, next.function, next.has_entry);
        if is_continued {
            self.end = next.end;
        }
        is_continued
    }
}

impl From<Missing> for Difference {
    fn from(Missing { function, start, end, has_entry }: Missing) -> Self {
        let table = if has_entry { "an entry without unwind information" } else { "no entry" };
        Self { function, start, end, words: format!("CFI: unwind information; table: {table}") }
    }
}
