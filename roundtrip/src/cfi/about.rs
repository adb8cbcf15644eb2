//! The properties of a section beside its frames.

use cfipack_format::cfi::Section;
use gimli::{BaseAddresses, Vendor};

/// The letters `B` and `G` of a CIE's augmentation, which gimli does not get to see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letters {
    /// The start of the CIE; of several they ascend.
    pub cie: usize,
    /// True if `B` is among them.
    pub key_b: bool,
    /// The number of these bytes: by so many bytes gimli sees what follows too early.
    pub count: u64,
}

/// The properties of a section beside its frames.
#[derive(Clone, Debug)]
pub(super) struct About<'f> {
    pub section: &'f Section<'f>,
    /// The bytes as gimli is to read them.
    pub bytes: &'f [u8],
    pub vendor: Vendor,
    pub bases: BaseAddresses,
    /// The letters of its CIEs that have any.
    pub letters: &'f [Letters],
    /// Bytes of the longest CIE whose instructions are run.
    pub longest_cie: usize,
}

impl About<'_> {
    /// The letters of the CIE at an offset that gimli does not get to see, if there are any.
    #[inline]
    pub(super) fn letters(&self, cie: usize) -> Option<&Letters> {
        let found = self.letters.binary_search_by_key(&cie, |letters| letters.cie);
        found.ok().map(|index| &self.letters[index])
    }
}
