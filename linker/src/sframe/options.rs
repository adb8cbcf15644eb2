//! Options of the output, and of where its rows come from.

use crate::encoder::sframe as encoder;

/// The source of the rows of a function that has both a table's and call frame information (CFI).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Prefer {
    /// From the object's table; from CFI where the table has no rows for the function.
    #[default]
    Table,
    /// From CFI, which gives fewer bytes and more functions than the tables of GNU `as`; from the table where the
    /// function has no CFI.
    Cfi,
    /// From the object's table. CFI is not read: a function without rows in a table has none in the output. This is
    /// what GNU `ld` does.
    TableOnly,
}

/// Options of a [`Merger`](super::Merger).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The source of rows.
    pub prefer: Prefer,
    /// Version, layout and more of the output. Merging of neighbouring functions needs their addresses, which a
    /// linker's inputs do not have: functions are refused with it.
    pub table: encoder::Options,
}

impl Options {
    /// [`Prefer::Table`], version 3, layout `Small`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets where rows come from.
    #[must_use]
    pub fn with_prefer(mut self, prefer: Prefer) -> Self {
        self.prefer = prefer;
        self
    }

    /// Sets version, layout and more of the output.
    #[must_use]
    pub fn with_table(mut self, table: encoder::Options) -> Self {
        self.table = table;
        self
    }
}
