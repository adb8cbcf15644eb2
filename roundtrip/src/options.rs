//! Options of verifications and comparisons, for both formats.

/// Options of verifying, and of comparing two tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The number of differences, and of unverified functions, that the report describes; it counts all.
    pub limit: usize,
    /// The number of bytes for which one function of a `.sframe` table that covers two of the CFI may answer between
    /// them: the padding between functions that were merged. Counts as 0 if a function of the CFI cannot be
    /// read, since it may lie there.
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
