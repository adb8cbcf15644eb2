//! The report of verifying a table of compact unwind: [`Report`] and its [`Difference`]s.

use std::collections::BTreeMap;
use std::fmt;

use cfipack_format::Address;

use crate::limited::Piece;
use crate::sframe::Unverified;

/// The result of comparing a table of compact unwind with CFI. A function is an FDE of the CFI, and a PC is a byte of
/// code.
///
/// `functions` is the sum of `equal`, `dwarf`, `scanned`, `different`, `missing` and `unjudged`. `pcs` is the sum of
/// `pcs_equal`, `pcs_prologue`, `pcs_epilogue`, `pcs_dwarf`, `pcs_scanned`, `pcs_different`, `pcs_missing` and
/// `pcs_unjudged`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// The number of functions of the CFI. Several FDEs with the same start count as one function.
    pub functions: u64,
    /// The number of functions whose compact entries represent the CFI in the function's body.
    pub equal: u64,
    /// The number of functions that the table leaves to their FDEs. Readers find these FDEs without a scan.
    pub dwarf: u64,
    /// The number of functions with a PC for which the table names an FDE after the function's own FDE, and without a
    /// different or missing PC. LLVM's libunwind then scans all of `__eh_frame` and finds the right FDE; framehop does
    /// not find it.
    pub scanned: u64,
    /// The number of functions with a PC in the body for which the table encodes something else than the CFI.
    pub different: u64,
    /// The number of functions with a PC for which the CFI has a row and the table has nothing. A function with a
    /// different PC counts as `different` instead.
    pub missing: u64,
    /// The number of functions that could not be judged. Either gimli cannot evaluate the CFI up to the function's
    /// end, and the table does not differ before that point; or several FDEs have the function's start, and they
    /// disagree.
    pub unjudged: u64,
    /// The number of FDEs that start where another FDE starts. They do not count in `functions`.
    pub duplicates: u64,
    /// The number of compact entries that begin outside of all functions of the CFI. There is nothing to compare them
    /// with.
    pub without_cfi: u64,
    /// The number of PCs in all functions of the CFI.
    pub pcs: u64,
    /// The number of PCs for which table and CFI agree.
    pub pcs_equal: u64,
    /// The number of PCs in prologues, before a function's body, for which the entry is not exact. This is no fault,
    /// because compact unwind only represents bodies.
    pub pcs_prologue: u64,
    /// The number of PCs in epilogues, after a function's body, for which the entry is not exact. This is no fault
    /// either.
    pub pcs_epilogue: u64,
    /// The number of PCs that the table leaves to FDEs.
    pub pcs_dwarf: u64,
    /// The number of PCs for which the table names an FDE after the function's own FDE.
    pub pcs_scanned: u64,
    /// The number of PCs for which table and CFI differ.
    pub pcs_different: u64,
    /// The number of PCs for which the CFI has a row and the table has nothing.
    pub pcs_missing: u64,
    /// The number of PCs that gimli cannot evaluate, or for which several FDEs disagree.
    pub pcs_unjudged: u64,
    /// The number of PCs of compact entries outside of all functions of the CFI. They do not count in `pcs`.
    pub pcs_without_cfi: u64,
    /// The number of functions whose compact entry has another personality or LSDA than their FDE. Such a function can
    /// still be `equal`, because only the rows decide that.
    pub handlers_different: u64,
    /// The number of missing and unjudged functions for each reason.
    pub reasons: BTreeMap<String, u64>,
    /// The starts of all functions that are not as the CFI describes them, in ascending order: a PC differs or is missing,
    /// or the personality or the LSDA differs.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub contradicted: Vec<Address>,
    /// The first differences in the order of their addresses, followed by the first ranges of PCs that are missing.
    /// Each of the two lists has at most [`Options::limit`](crate::Options::limit) items.
    pub differences: Vec<Difference>,
    /// The number of differences and missing ranges that `differences` does not list.
    pub more_differences: u64,
    /// The first unjudged functions, each with its reason, at most [`Options::limit`](crate::Options::limit).
    pub unverified: Vec<Unverified>,
    /// The number of unjudged functions that `unverified` does not list.
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

    /// Adds a difference to the described differences, or only counts it if there are `limit` of them.
    pub(super) fn describe(&mut self, difference: Difference, limit: usize) {
        if self.differences.len() < limit {
            self.differences.push(difference);
        } else {
            self.more_differences += 1;
        }
    }
}

/// A range of PCs for which table and CFI differ, in the same way at each PC.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The start of the function in the CFI.
    pub function: Address,
    /// The first PC of the range.
    pub start: Address,
    /// The end of the range: one past the last PC.
    pub end: Address,
    /// Describes the answers of both sides.
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
