//! The kind of table to write.

/// The linker whose table is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// The fewest bytes that any reader of 4096-byte pages takes.
    #[default]
    Small,
    /// The table of ld64.lld 23.
    Lld,
    /// The table of Apple's linker since Xcode 15.
    LdPrime,
    /// The table of Apple's linker before Xcode 15: ld64 of versions 264.3 to 956.
    Ld64,
    /// The table of ld64 up to version 253.3, of Xcode 7.2: a word of each page stays unused.
    Ld64V253,
}

impl Layout {
    /// All layouts.
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

    /// Returns whether it is a layout of Apple's linkers.
    pub(super) const fn is_apples(self) -> bool {
        match self {
            Self::LdPrime | Self::Ld64 | Self::Ld64V253 => true,
            Self::Small | Self::Lld => false,
        }
    }

    /// Returns whether it is a layout of an ld64, which fills pages from the end of the table.
    pub(super) const fn is_ld64(self) -> bool {
        match self {
            Self::Ld64 | Self::Ld64V253 => true,
            Self::Small | Self::Lld | Self::LdPrime => false,
        }
    }
}

/// Options of writing the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The linker whose table is written.
    pub layout: Layout,
    /// Omit the LSDA records of DWARF-mode functions, 8 bytes each, in layouts other than
    /// [`Layout::Small`], which omits them anyway. LLVM's libunwind and lldb take the LSDA of such
    /// a function from its FDE. The table is no longer the linker's. Overrides `keep_dwarf_lsda`.
    pub omit_dwarf_lsda: bool,
    /// Keep the LSDA records of DWARF-mode functions in [`Layout::Small`] too. No reader that is
    /// known follows them: the entry has no LSDA flag there.
    pub keep_dwarf_lsda: bool,
    /// Bytes of the image's `__eh_frame`, 0 if it has none. [`Layout::Ld64`] and
    /// [`Layout::Ld64V253`] make the last page as small as the part of a 4096-byte page that
    /// `__eh_frame` leaves; no other layout depends on it.
    pub eh_frame_len: u32,
}

impl Options {
    /// Layout [`Small`](Layout::Small), without LSDA records of DWARF-mode functions, for an image without
    /// `__eh_frame`.
    pub const fn new() -> Self {
        Self { layout: Layout::Small, omit_dwarf_lsda: false, keep_dwarf_lsda: false, eh_frame_len: 0 }
    }

    /// Sets the [layout](Self::layout).
    #[must_use]
    pub const fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets whether LSDA records of DWARF-mode functions are [omitted](Self::omit_dwarf_lsda).
    #[must_use]
    pub const fn with_omit_dwarf_lsda(self, omit_dwarf_lsda: bool) -> Self {
        Self { omit_dwarf_lsda, ..self }
    }

    /// Sets whether LSDA records of DWARF-mode functions are [kept](Self::keep_dwarf_lsda) in layout
    /// [`Small`](Layout::Small).
    #[must_use]
    pub const fn with_keep_dwarf_lsda(self, keep_dwarf_lsda: bool) -> Self {
        Self { keep_dwarf_lsda, ..self }
    }

    /// Sets the bytes of the image's [`__eh_frame`](Self::eh_frame_len).
    #[must_use]
    pub const fn with_eh_frame_len(self, eh_frame_len: u32) -> Self {
        Self { eh_frame_len, ..self }
    }

    /// Returns whether DWARF-mode functions have no LSDA records.
    pub(super) const fn omits_dwarf_lsda(&self) -> bool {
        self.omit_dwarf_lsda || (matches!(self.layout, Layout::Small) && !self.keep_dwarf_lsda)
    }

    /// Returns whether DWARF-mode entries name their personality, which their FDEs do too.
    pub(super) const fn names_dwarf_personality(&self) -> bool {
        self.layout.is_apples()
    }

    /// Returns whether DWARF-mode entries have the LSDA flag, without which no reader looks for the record.
    pub(super) const fn flags_dwarf_lsda(&self) -> bool {
        matches!(self.layout, Layout::LdPrime)
    }
}
