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
    /// The table that Apple's linker of SDK 27 writes (version 27037.1). It never merges entries without information.
    LdPrime27,
    /// The table that Apple's linker wrote before Xcode 15 (ld64, versions 264.3 to 956).
    Ld64,
    /// The table that ld64 up to version 253.3 wrote (Xcode 7.2). One word of each page stays unused.
    Ld64V253,
    /// The table that Zig's own linker writes.
    Zig,
}

impl Layout {
    /// All layouts, in the order of their declaration.
    pub const ALL: [Self; 7] =
        [Self::Small, Self::Lld, Self::LdPrime, Self::LdPrime27, Self::Ld64, Self::Ld64V253, Self::Zig];

    /// The name that options and reports have for the layout: `small`, `lld`, `ld-prime`, `ld-prime-27`, `ld64`,
    /// `ld64-253` or `zig`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Lld => "lld",
            Self::LdPrime => "ld-prime",
            Self::LdPrime27 => "ld-prime-27",
            Self::Ld64 => "ld64",
            Self::Ld64V253 => "ld64-253",
            Self::Zig => "zig",
        }
    }

    /// Returns whether code without unwind information counts as empty at the end of the table, so that the sentinel is
    /// its address. The linker merges such neighbours first, so push the last of them if you rebuild a table.
    pub const fn ends_where_last_null_starts(self) -> bool {
        self.habits().ends_where_last_null_starts
    }

    /// Returns whether the sentinel is one byte after the end of the code.
    pub const fn ends_a_byte_late(self) -> bool {
        self.habits().ends_a_byte_late
    }

    /// Returns what the layout's linker does in its own way.
    pub(super) const fn habits(self) -> Habits {
        match self {
            Self::Small => Habits { is_smallest: true, ..Habits::OF_LLD },
            Self::Lld => Habits {
                ends_with_last_entry: true,
                ends_where_last_null_starts: true,
                keeps_personality_number: true,
                has_pages_of_one_size: true,
                ..Habits::OF_LLD
            },
            Self::LdPrime => Habits { flags_dwarf_lsda: true, is_ld_prime: true, ..Habits::OF_APPLE },
            Self::LdPrime27 => Habits {
                flags_dwarf_lsda: true,
                is_ld_prime: true,
                ends_a_byte_late: true,
                merges_nulls: false,
                ..Habits::OF_APPLE
            },
            Self::Ld64 | Self::Ld64V253 => Habits {
                ends_a_byte_late: true,
                gives_each_dwarf_a_slot: true,
                fills_from_the_end: true,
                ..Habits::OF_APPLE
            },
            Self::Zig => Habits {
                is_written_always: false,
                ends_with_last_entry: true,
                has_pages_of_one_size: true,
                gives_each_dwarf_a_slot: true,
                flags_dwarf_lsda: true,
                palette_first: true,
                ..Habits::OF_APPLE
            },
        }
    }
}

/// What a linker does in its own way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// The table is the smallest, instead of a linker's pages.
    pub(super) is_smallest: bool,
    /// The pages are those of Apple's linker since Xcode 15. It also keeps an empty entry without information before
    /// an entry with the same address.
    pub(super) is_ld_prime: bool,
    /// Pages are filled from the end of the table.
    pub(super) fills_from_the_end: bool,
    /// A section is written if there is any entry. Others need an entry with information.
    pub(super) is_written_always: bool,
    /// The table ends where its last entry ends, whatever the caller says about the end of the code.
    pub(super) ends_with_last_entry: bool,
    /// An entry without information is empty if it is the last.
    pub(super) ends_where_last_null_starts: bool,
    /// The sentinel is one byte after the end.
    pub(super) ends_a_byte_late: bool,
    /// An encoding keeps the personality number that an object's row has by mistake.
    pub(super) keeps_personality_number: bool,
    /// Each page has 4096 bytes whatever is in it, so that a plan knows the size of all pages.
    pub(super) has_pages_of_one_size: bool,
    /// Equal neighbours without information are merged.
    pub(super) merges_nulls: bool,
    /// Equal neighbours in DWARF mode are merged.
    pub(super) merges_dwarf: bool,
    /// Each entry in DWARF mode has a slot of its own in a page's palette.
    pub(super) gives_each_dwarf_a_slot: bool,
    /// Entries in DWARF mode have a personality number. Their FDEs have the personality in any case.
    pub(super) names_dwarf_personality: bool,
    /// Entries in DWARF mode have the LSDA flag. Without the flag, no reader looks for the record.
    pub(super) flags_dwarf_lsda: bool,
    /// A compressed page has its own palette before its entries.
    pub(super) palette_first: bool,
}

impl Habits {
    const OF_LLD: Self = Self {
        is_smallest: false,
        is_ld_prime: false,
        fills_from_the_end: false,
        is_written_always: false,
        ends_with_last_entry: false,
        ends_where_last_null_starts: false,
        ends_a_byte_late: false,
        keeps_personality_number: false,
        has_pages_of_one_size: false,
        merges_nulls: true,
        merges_dwarf: true,
        gives_each_dwarf_a_slot: false,
        names_dwarf_personality: false,
        flags_dwarf_lsda: false,
        palette_first: false,
    };

    const OF_APPLE: Self =
        Self { is_written_always: true, merges_dwarf: false, names_dwarf_personality: true, ..Self::OF_LLD };
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
        self.omit_dwarf_lsda || (self.layout.habits().is_smallest && !self.keep_dwarf_lsda)
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
            Layout::LdPrime27 => 3,
            Layout::Ld64 => 4,
            Layout::Ld64V253 => 5,
            Layout::Zig => 6,
        };
        assert!(Layout::ALL.into_iter().map(number).eq(0..7));
    }
}
