//! The properties of a section beside its frames.

use cfipack_format::cfi::Section;
use gimli::{BaseAddresses, Vendor};

/// The letters `B` and `G` of a CIE's augmentation, which are hidden from gimli.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letters {
    /// The start of the CIE. Several are in ascending order.
    pub cie: usize,
    /// True if `B` is among them.
    pub key_b: bool,
    /// The number of hidden bytes. gimli sees the bytes after them this much too early.
    pub count: u64,
}

/// The properties of a section beside its frames.
#[derive(Clone, Debug)]
pub(super) struct About<'f> {
    pub section: &'f Section<'f>,
    /// The bytes for gimli.
    pub bytes: &'f [u8],
    pub vendor: Vendor,
    pub bases: BaseAddresses,
    /// The hidden letters, for the CIEs that have any.
    pub letters: &'f [Letters],
    /// The length of the longest CIE with instructions that are run.
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
