//! The options of a [`Builder`](super::Builder).

use cfipack_format::sframe::{FreType, Version};

/// How functions and their rows are laid out in the section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// The smallest table. It drops redundant rows, uses the narrowest start offsets, stores equal rows of
    /// several functions once, and has no entry for a function without code. Every lookup answers as in layout
    /// `Gnu`, or better if gas omits the function.
    #[default]
    Small,
    /// The layout that gas 2.47 writes, with the quirks of its row structure. If gas's row would be wrong, this
    /// layout has the row of the CFI. The index of a linked file is sorted, as ld 2.47 does.
    Gnu,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 2] = [Self::Small, Self::Gnu];

    /// Returns the name of the layout in options and reports: `small` or `gnu`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Gnu => "gnu",
        }
    }

    /// Returns whether this layout makes the smallest table, instead of the rows and FDEs that gas writes.
    #[inline]
    pub(crate) const fn is_smallest(self) -> bool {
        match self {
            Self::Small => true,
            Self::Gnu => false,
        }
    }

    /// Returns whether functions with equal rows may share a block.
    #[inline]
    pub(crate) const fn shares_rows(self) -> bool {
        match self {
            Self::Small => true,
            Self::Gnu => false,
        }
    }

    /// Returns whether the last row of an FDE narrows the FRE type.
    #[inline]
    pub(crate) const fn narrows_starts(self) -> bool {
        match self {
            Self::Small => true,
            Self::Gnu => false,
        }
    }

    /// Returns whether neighbouring functions may become one FDE.
    #[inline]
    const fn merges_functions(self) -> bool {
        match self {
            Self::Small => true,
            Self::Gnu => false,
        }
    }

    /// Returns whether entries are sorted already before they are written. Otherwise they keep the order of the
    /// functions, as in an object.
    #[inline]
    pub(crate) const fn sorts_entries(self) -> bool {
        match self {
            Self::Small => true,
            Self::Gnu => false,
        }
    }

    /// Returns the FRE type for a function or stubs of `size` bytes, before the last row narrows it. gas
    /// chooses the type by the size, with room for a start at the very end. ld chooses it by the size of a
    /// whole section of stubs.
    #[inline]
    pub(crate) const fn fre_type(self, size: u32) -> FreType {
        FreType::for_start(match self {
            Self::Small => size.saturating_sub(1),
            Self::Gnu => size,
        })
    }
}

/// Options of a [`Builder`](super::Builder).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The version to write: 3 or 2. binutils from 2.46 on does not link version 2.
    /// [`Builder::new`](super::Builder::new) refuses version 1.
    pub version: Version,
    /// The layout.
    pub layout: Layout,
    /// True if the builder may write flex FDEs. Only version 3 has them.
    pub flex: bool,
    /// True if the builder may write rows without a caller. A row has no caller if its return address is
    /// undefined, for example in `_start` and where threads start. If this is false, a function with such a
    /// row is refused with [`Reason::ReturnAddressRule`](crate::Reason::ReturnAddressRule). Version 3 has
    /// these rows, and version 2 since its second erratum. glibc 2.43 does not know this erratum: at such a
    /// row, its `backtrace()` returns no frame at all. At a function that is in no table, it stops as it
    /// should.
    pub outermost: bool,
    /// True if functions with equal rows share a block in layout `Small`. If this is false, each function has
    /// its own block, and all blocks together must fit 4 GiB. Turn sharing off for binutils and libsframe on
    /// a machine of the other byte order. They swap the bytes of each function's rows in place, and cannot
    /// read rows that two functions share.
    pub share: bool,
    /// The largest number of rows of an FDE of merged functions; 0 and 1 turn merging off. Up to 256
    /// neighbouring functions become a single FDE. The table then also answers for PCs in the
    /// [padding](Self::padding) between merged functions. The builder decides by the addresses in the CFI, so
    /// merged functions must keep their distance from each other
    /// ([`WriteError::MergedApart`](super::WriteError)). Functions without addresses are refused
    /// ([`Reason::PlaceUnknown`](crate::Reason::PlaceUnknown)).
    pub merge_functions: u32,
    /// True if you expect only a few functions, for example if a JIT adds a function to a region. The builder
    /// then costs less, and each function costs more. The section is the same.
    pub few: bool,
}

impl Options {
    /// Returns the default options: version 3, layout [`Small`](Layout::Small), flex FDEs, rows without a
    /// caller, shared blocks, and an FDE for every function.
    pub const fn new() -> Self {
        Self {
            version: Version::DEFAULT,
            layout: Layout::Small,
            flex: true,
            outermost: true,
            share: true,
            merge_functions: 0,
            few: false,
        }
    }

    /// Sets the [version](Self::version).
    #[must_use]
    pub const fn with_version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// Sets the [layout](Self::layout).
    #[must_use]
    pub const fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets whether [flex](Self::flex) FDEs may be written.
    #[must_use]
    pub const fn with_flex(self, flex: bool) -> Self {
        Self { flex, ..self }
    }

    /// Sets whether rows of [outermost](Self::outermost) frames may be written.
    #[must_use]
    pub const fn with_outermost(self, outermost: bool) -> Self {
        Self { outermost, ..self }
    }

    /// Sets whether functions [share](Self::share) blocks of rows.
    #[must_use]
    pub const fn with_share(self, share: bool) -> Self {
        Self { share, ..self }
    }

    /// Sets the largest number of rows of an FDE of [merged](Self::merge_functions) functions. 0 and 1 turn
    /// merging off.
    #[must_use]
    pub const fn with_merge_functions(self, merge_functions: u32) -> Self {
        Self { merge_functions, ..self }
    }

    /// Sets whether a [few](Self::few) functions are expected.
    #[must_use]
    pub const fn with_few(self, few: bool) -> Self {
        Self { few, ..self }
    }

    /// Returns whether neighbouring functions become one FDE.
    pub(crate) fn merges(&self) -> bool {
        self.merge_functions > 1 && self.layout.merges_functions()
    }

    /// Returns how many bytes may lie between two merged functions: 15, or 0 without merging. If a function
    /// [cannot be read](super::Builder::note_unread), functions are not merged across any gap.
    pub fn padding(&self) -> u64 {
        if self.merge_functions > 1 { MAX_PADDING } else { 0 }
    }
}

/// The largest padding between two functions that alignment explains, in bytes.
const MAX_PADDING: u64 = 15;

impl Default for Options {
    fn default() -> Self {
        Self::new()
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
            Layout::Gnu => 1,
        };
        assert!(Layout::ALL.into_iter().map(number).eq(0..2));
    }
}
