//! Addresses of what a table speaks of.

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{ImageOffset, Key, LsdaKey};

/// The addresses of functions and LSDAs, by their keys, and the FDEs that describe functions in DWARF mode: what a linker knows
/// when it has laid out its output. [`Section::place`](super::Section::place) takes closures for the same where
/// everything has an address.
pub trait Places {
    /// The image offset of a function; none for one that has no address, whose entry the table then omits.
    fn function(&self, function: Key) -> Option<ImageOffset>;

    /// The image offset of an LSDA; none for one that has no address: the entry is then one without LSDA.
    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset>;

    /// The encoding of an entry that is in DWARF mode, with the offset of its FDE, once that is known:
    /// [`Encoding::dwarf`]; or [`Encoding::NONE`] where there is no FDE. Flags stay. Without this method, the
    /// encoding stays as it was pushed.
    fn dwarf(&self, function: Key, encoding: Encoding) -> Encoding {
        let _ = function;
        encoding
    }
}

/// Closures for a table in which everything has an address.
pub(super) struct Everywhere<F, L> {
    pub(super) function_at: F,
    pub(super) lsda_at: L,
}

impl<F: Fn(Key) -> ImageOffset, L: Fn(LsdaKey) -> ImageOffset> Places for Everywhere<F, L> {
    #[inline]
    fn function(&self, function: Key) -> Option<ImageOffset> {
        Some((self.function_at)(function))
    }

    #[inline]
    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        Some((self.lsda_at)(lsda))
    }
}
