//! The kind of section to write.

use cfipack_format::sframe::{FreType, Version};

/// The layout of functions in the section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Redundant rows dropped, the narrowest start offsets, functions with equal rows sharing one
    /// block, no entry for a function without code. Every lookup answers as in layout `Gnu`, or
    /// better where gas leaves a function out.
    #[default]
    Small,
    /// The layout that gas 2.47 writes, quirks of row structure included; where gas's row is wrong the row
    /// gives the rows of the CFI. A linked file's index is sorted, as by ld 2.47.
    Gnu,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 2] = [Self::Small, Self::Gnu];

    /// The name that options and reports have for the layout: `small` or `gnu`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Gnu => "gnu",
        }
    }

    /// The type of the FREs of a function, or of stubs, of `size` bytes, as long as it is not narrowed by the last row:
    /// gas chooses it by the size, so that it has room for a start at the very end. ld does so by the size of a whole
    /// section of stubs.
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
    /// Version 3, or version 2, which binutils from 2.46 on does not link.
    /// [`Builder::new`](super::Builder::new) refuses version 1, which is not written.
    pub version: Version,
    /// The layout.
    pub layout: Layout,
    /// True if flex FDEs may be written, where the version has them.
    pub flex: bool,
    /// True if rows without a caller may be written: those whose return address is undefined, as in `_start` and where
    /// threads start. Functions with one are otherwise refused with
    /// [`Reason::ReturnAddressRule`](crate::Reason::ReturnAddressRule). Version 3 has them, and version 2 since its second
    /// erratum, which glibc 2.43 does not know: its `backtrace()` returns no frame at all where it meets such a row,
    /// and stops as it should where a function is in no table.
    pub outermost: bool,
    /// True if functions with equal rows share one block in layout `Small`. Without sharing each has its
    /// own, if a section's 4 GiB are enough for that: binutils and its libsframe, on a machine of the other
    /// byte order, turn each function's rows round in place and cannot read what two functions share.
    pub share: bool,
    /// Neighbouring functions, up to 256, become one FDE as long as it has no more rows than this; 0
    /// and 1 leave every function its own FDE. PCs in the [padding](Self::padding) between merged functions
    /// are then answered too. What is merged is chosen by the addresses that the CFI gives: functions of one
    /// entry must keep their distance from each other ([`WriteError::MergedApart`](super::WriteError)). Functions
    /// without addresses are refused ([`Reason::PlaceUnknown`](crate::Reason::PlaceUnknown)).
    pub merge_functions: u32,
    /// True if only a few functions are expected, as of a JIT that adds one to a region: the builder itself costs less
    /// then, and each function more. The section is the same.
    pub few: bool,
}

impl Options {
    /// Version 3 in layout [`Small`](Layout::Small), with flex FDEs and shared blocks, every function with its own
    /// FDE.
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

    /// Sets the most rows of an FDE of [merged](Self::merge_functions) functions; 0 and 1: none are merged.
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
        self.merge_functions > 1 && self.layout == Layout::Small
    }

    /// Bytes between two functions that may be merged: 15 at most, and none without merging. Beside a function
    /// that [cannot be read](super::Builder::note_unread) nothing is merged across a gap.
    pub fn padding(&self) -> u64 {
        if self.merge_functions > 1 { MAX_PADDING } else { 0 }
    }
}

/// The padding that alignment puts between two functions at most, in bytes.
const MAX_PADDING: u64 = 15;

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
