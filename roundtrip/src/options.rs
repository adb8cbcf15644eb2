//! Options of verifications and comparisons, for both formats.

/// How to verify, or to compare two tables.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many differences, and how many functions left out, the report describes; it counts all.
    pub limit: usize,
    /// Where one function of a `.sframe` table covers two of the CFI, it may answer for this many bytes between
    /// them: the padding between functions that were merged. Counts as 0 if a function of the CFI cannot be
    /// read, since it may lie there.
    pub padding: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit: 100, padding: 0 }
    }
}
