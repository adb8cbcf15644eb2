//! The ways to make room for a table in a linked file.

use core::fmt;

/// The way in which a linked file gets room for a table and its program headers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Way {
    /// The file has a table, and the place of that table is large enough.
    InPlace,
    /// The file has a table at the end of its last segment. The segment becomes longer.
    Grow,
    /// The small sections after the program headers move to a new segment, beside the table.
    Evict {
        /// The number of free program headers that are left, for other tools.
        spare: u8,
        /// True if a build-id among the moved sections keeps its place in the first page. Core files and kernels look
        /// for it there.
        keep_build_id: bool,
        /// True if the table's program header replaces a `PT_NOTE` that repeats `PT_GNU_PROPERTY`.
        reuse_note: bool,
        /// True if a program header replaces `PT_PHDR`, which a static executable does not need.
        reuse_phdr: bool,
    },
    /// A new page before all others holds the program headers. This is for executables with fixed addresses.
    Prepend,
}

impl Way {
    /// Returns the name for reports, such as `evict`.
    pub fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in-place",
            Self::Grow => "grow",
            Self::Evict { .. } => "evict",
            Self::Prepend => "prepend",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
