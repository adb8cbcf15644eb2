//! What kind of table to write.

/// Whose table to write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// The fewest bytes that any reader of 4096-byte pages takes.
    #[default]
    Small,
    /// What ld64.lld 23 writes.
    Lld,
    /// What Apple's linker since Xcode 15 writes.
    LdPrime,
}

/// How to write the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// Whose table to write.
    pub layout: Layout,
    /// Leave the LSDA records of DWARF-mode functions out. LLVM's libunwind and lldb take the
    /// LSDA of such a function from its FDE; in the layouts [`Layout::Small`] and [`Layout::Lld`]
    /// nothing leads to the record, which costs 8 bytes. [`Layout::Lld`] is no longer
    /// ld64.lld's with it.
    pub omit_dwarf_lsda: bool,
}
