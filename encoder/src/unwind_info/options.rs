//! Options of the writer.

/// A linker's way to arrange the table. See the [module](super#layouts) for the differences.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// The smallest table. Readers that accept pages of 4096 bytes can read it.
    #[default]
    Small,
    /// The table that ld64.lld 23 writes.
    Lld,
    /// The table that Apple's linker writes since Xcode 15 (ld-prime).
    LdPrime,
    /// The table that Apple's linker wrote before Xcode 15 (ld64, versions 264.3 to 956).
    Ld64,
    /// The table that ld64 up to version 253.3 wrote (Xcode 7.2). One word of each page stays unused.
    Ld64V253,
}

impl Layout {
    /// All layouts, in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Small, Self::Lld, Self::LdPrime, Self::Ld64, Self::Ld64V253];

    /// The name that options and reports have for the layout: `small`, `lld`, `ld-prime`, `ld64` or `ld64-253`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Lld => "lld",
            Self::LdPrime => "ld-prime",
            Self::Ld64 => "ld64",
            Self::Ld64V253 => "ld64-253",
        }
    }

    /// Returns whether this layout makes the smallest table, instead of a linker's pages.
    pub(super) const fn is_smallest(self) -> bool {
        match self {
            Self::Small => true,
            Self::Lld | Self::LdPrime | Self::Ld64 | Self::Ld64V253 => false,
        }
    }

    /// Returns whether the table ends where its last entry ends, whatever the caller says about the end of the code.
    /// It ends at the entry's start if the entry has no encoding.
    pub(super) const fn ends_with_last_entry(self) -> bool {
        match self {
            Self::Lld => true,
            Self::Small | Self::LdPrime | Self::Ld64 | Self::Ld64V253 => false,
        }
    }

    /// Returns whether an encoding keeps the personality number that an object's row has by mistake.
    pub(super) const fn keeps_personality_number(self) -> bool {
        match self {
            Self::Lld => true,
            Self::Small | Self::LdPrime | Self::Ld64 | Self::Ld64V253 => false,
        }
    }

    /// Returns whether a page costs the same whatever is in it, so that a plan knows the size of all pages.
    pub(super) const fn has_pages_of_one_size(self) -> bool {
        match self {
            Self::Lld => true,
            Self::Small | Self::LdPrime | Self::Ld64 | Self::Ld64V253 => false,
        }
    }

    /// Returns whether this is a layout of one of Apple's linkers.
    pub(super) const fn is_apples(self) -> bool {
        match self {
            Self::LdPrime | Self::Ld64 | Self::Ld64V253 => true,
            Self::Small | Self::Lld => false,
        }
    }

    /// Returns whether this is a layout of ld64, which fills pages from the end of the table.
    pub(super) const fn is_ld64(self) -> bool {
        match self {
            Self::Ld64 | Self::Ld64V253 => true,
            Self::Small | Self::Lld | Self::LdPrime => false,
        }
    }
}

/// Options for the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The linker whose table is written.
    pub layout: Layout,
    /// Set this to omit the LSDA records of functions in DWARF mode, which saves 8 bytes for each. LLVM's libunwind
    /// and lldb read the LSDA of such a function from its FDE. The table is then not identical to the linker's.
    /// [`Layout::Small`] always omits these records unless `keep_dwarf_lsda` is set; this option overrides
    /// `keep_dwarf_lsda`.
    pub omit_dwarf_lsda: bool,
    /// Set this to keep the LSDA records of functions in DWARF mode in [`Layout::Small`]. No known reader follows
    /// them, because the entry has no LSDA flag.
    pub keep_dwarf_lsda: bool,
    /// The size of the image's `__eh_frame` in bytes, or 0 if it has none. Only [`Layout::Ld64`] and
    /// [`Layout::Ld64V253`] use it: they give the last page the size that `__eh_frame` leaves of a 4096-byte page.
    pub eh_frame_len: u32,
}

impl Options {
    /// Returns the default options: layout [`Small`](Layout::Small), no LSDA records for functions in DWARF mode, and
    /// no `__eh_frame`.
    pub const fn new() -> Self {
        Self { layout: Layout::Small, omit_dwarf_lsda: false, keep_dwarf_lsda: false, eh_frame_len: 0 }
    }

    /// Sets the [layout](Self::layout).
    #[must_use]
    pub const fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets whether to [omit](Self::omit_dwarf_lsda) the LSDA records of functions in DWARF mode.
    #[must_use]
    pub const fn with_omit_dwarf_lsda(self, omit_dwarf_lsda: bool) -> Self {
        Self { omit_dwarf_lsda, ..self }
    }

    /// Sets whether to [keep](Self::keep_dwarf_lsda) the LSDA records of functions in DWARF mode in layout
    /// [`Small`](Layout::Small).
    #[must_use]
    pub const fn with_keep_dwarf_lsda(self, keep_dwarf_lsda: bool) -> Self {
        Self { keep_dwarf_lsda, ..self }
    }

    /// Sets the size of the image's [`__eh_frame`](Self::eh_frame_len) in bytes.
    #[must_use]
    pub const fn with_eh_frame_len(self, eh_frame_len: u32) -> Self {
        Self { eh_frame_len, ..self }
    }

    /// Returns whether the LSDA records of functions in DWARF mode are omitted.
    pub(super) const fn omits_dwarf_lsda(&self) -> bool {
        self.omit_dwarf_lsda || (self.layout.is_smallest() && !self.keep_dwarf_lsda)
    }

    /// Returns whether entries in DWARF mode have a personality number. Their FDEs have the personality in any case.
    pub(super) const fn names_dwarf_personality(&self) -> bool {
        self.layout.is_apples()
    }

    /// Returns whether entries in DWARF mode have the LSDA flag. Without the flag, no reader looks for the record.
    pub(super) const fn flags_dwarf_lsda(&self) -> bool {
        match self.layout {
            Layout::LdPrime => true,
            Layout::Small | Layout::Lld | Layout::Ld64 | Layout::Ld64V253 => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_has_each_layout_at_its_number() {
        // The match fails to compile without a new layout, and the numbers then fail if `ALL` lacks it.
        let number = |layout| match layout {
            Layout::Small => 0,
            Layout::Lld => 1,
            Layout::LdPrime => 2,
            Layout::Ld64 => 3,
            Layout::Ld64V253 => 4,
        };
        assert!(Layout::ALL.into_iter().map(number).eq(0..5));
    }
}
