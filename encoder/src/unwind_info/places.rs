//! The addresses that a table needs.

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{ImageOffset, Key, LsdaKey};

/// Supplies the addresses of functions and LSDAs, and the FDEs of functions in DWARF mode. A linker implements this
/// trait if some functions or LSDAs may have no address, or if FDEs are placed late. If everything has an address,
/// pass closures to [`Section::place`](super::Section::place) instead.
pub trait Places {
    /// Returns the image offset of a function. Return `None` if the function has no address; its entry is then
    /// omitted from the table.
    fn function(&self, function: Key) -> Option<ImageOffset>;

    /// Returns the image offset of an LSDA. Return `None` if the LSDA has no address; the entry is then written
    /// without an LSDA.
    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset>;

    /// Returns the encoding of an entry in DWARF mode with the offset of its FDE ([`Encoding::dwarf`]), or
    /// [`Encoding::NONE`] if there is no FDE. The entry's flags stay. If you do not implement this method, the
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
