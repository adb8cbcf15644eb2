//! Options of verifications and comparisons, for both formats.

/// Options for verifying a table, and for comparing two tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The greatest number of differences, and of unverified functions, that a report describes. It counts all of them.
    pub limit: usize,
    /// The size of gaps, in bytes, that count as padding. If a function of a `.sframe` table covers two functions of
    /// the CFI, as after merging, it may answer for a gap of this size between them. Counts as 0 if a function of the
    /// CFI cannot be read, because it may lie in the gap.
    pub padding: u64,
}

impl Options {
    /// Describes 100 differences, and allows no padding.
    pub const fn new() -> Self {
        Self { limit: 100, padding: 0 }
    }

    /// Sets how many differences are [described](Self::limit).
    #[must_use]
    pub const fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Sets the bytes of [padding](Self::padding) between merged functions.
    #[must_use]
    pub const fn with_padding(self, padding: u64) -> Self {
        Self { padding, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
