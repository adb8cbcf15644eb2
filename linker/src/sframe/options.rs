//! Options of a merge: where rows come from, and how they are encoded.

use crate::encoder::sframe as encoder;

/// Decides where rows come from if a function has both an entry in a table and call frame information (CFI).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Prefer {
    /// Use the object's table. If the table has no rows for a function, use CFI.
    #[default]
    Table,
    /// Use CFI. This gives fewer bytes and more functions than the tables of GNU `as`. If a function has no CFI, use
    /// the table.
    Cfi,
    /// Use the object's table and never read CFI. A function without rows in a table has no rows in the output. GNU
    /// `ld` does this.
    TableOnly,
}

/// Options of a [`Merger`](super::Merger).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Where rows come from.
    pub prefer: Prefer,
    /// Version, layout and other options of the output. Do not turn on merging of neighbouring functions: it needs
    /// addresses, which a linker's inputs do not have, so every function would be refused.
    pub table: encoder::Options,
}

impl Options {
    /// Returns the defaults: [`Prefer::Table`], version 3, layout `Small`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets where rows come from.
    #[must_use]
    pub fn with_prefer(mut self, prefer: Prefer) -> Self {
        self.prefer = prefer;
        self
    }

    /// Sets version, layout and other options of the output.
    #[must_use]
    pub fn with_table(mut self, table: encoder::Options) -> Self {
        self.table = table;
        self
    }
}
