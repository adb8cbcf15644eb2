//! The properties of a section that gimli's type for the section does not hold.

use cfipack_format::cfi::Section;
use gimli::{BaseAddresses, Vendor};

/// The letters `B` and `G` of a CIE's augmentation, which are hidden from gimli.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letters {
    /// The offset of the CIE. A list of `Letters` is in ascending order of this offset.
    pub cie: usize,
    /// True if `B` is among the letters.
    pub key_b: bool,
    /// The number of hidden bytes. For gimli, the bytes after the letters start this many bytes too early.
    pub count: u64,
}

/// The properties of a section that gimli's type for the section does not hold.
#[derive(Clone, Debug)]
pub(super) struct About<'f> {
    pub section: &'f Section<'f>,
    /// The bytes for gimli.
    pub bytes: &'f [u8],
    pub vendor: Vendor,
    pub bases: BaseAddresses,
    /// The hidden letters, for the CIEs that have any.
    pub letters: &'f [Letters],
    /// The greatest length of a CIE in bytes: the instructions of a longer CIE are not run.
    pub longest_cie: usize,
}

impl About<'_> {
    /// Returns the hidden letters of the CIE at an offset, if there are any.
    #[inline]
    pub(super) fn letters(&self, cie: usize) -> Option<&Letters> {
        let found = self.letters.binary_search_by_key(&cie, |letters| letters.cie);
        found.ok().map(|index| &self.letters[index])
    }
}
