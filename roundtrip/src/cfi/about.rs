//! The properties of a section that gimli's type for the section does not hold.

use cfipack_format::cfi::Section;
use gimli::{BaseAddresses, Endianity, Vendor};

use super::answer::Flags;
use super::source::Fde;

/// A CIE that gimli sees in another form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    /// The offset of the CIE. A list of them is in ascending order of this offset.
    pub cie: usize,
    /// True if the letter `B` was removed.
    pub key_b: bool,
    /// The number of bytes that were removed before the personality pointer. gimli sees this pointer this much too early.
    pub removed: u64,
}

/// The place where a function signs its return address with a PC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signing {
    /// The offset of the FDE. A list of them is in ascending order of this offset.
    pub fde: usize,
    /// The distance in bytes from the function's start to the instruction whose address is in the signature.
    pub offset: u64,
}

/// The properties of a section that gimli's type for the section does not hold.
#[derive(Clone, Debug)]
pub(super) struct About<'f> {
    pub section: &'f Section<'f>,
    /// The bytes for gimli.
    pub bytes: &'f [u8],
    pub vendor: Vendor,
    pub bases: BaseAddresses,
    /// The CIEs that gimli sees in another form.
    pub changed: &'f [Changed],
    /// The functions that sign their return address with a PC.
    pub signings: &'f [Signing],
    /// The greatest length of a CIE in bytes: the instructions of a longer CIE are not run.
    pub longest_cie: usize,
}

impl About<'_> {
    /// Returns the change of the CIE at an offset, if gimli sees it in another form.
    #[inline]
    pub(super) fn change_of(&self, cie: usize) -> Option<&Changed> {
        let found = self.changed.binary_search_by_key(&cie, |changed| changed.cie);
        found.ok().map(|index| &self.changed[index])
    }

    /// Returns the flags of all rows of an FDE.
    #[inline]
    pub(super) fn flags_of<E: Endianity>(&self, fde: &Fde<'_, E>) -> Flags {
        let changed = self.change_of(fde.cie().offset());
        let key_b = changed.is_some_and(|changed| changed.key_b);
        Flags { signal: Some(fde.is_signal_trampoline()), key_b }
    }

    /// Returns the distance from a function's start to the instruction that signs its return address with a PC.
    #[inline]
    pub(super) fn signing_of(&self, fde: usize) -> Option<u64> {
        let found = self.signings.binary_search_by_key(&fde, |signing| signing.fde);
        found.ok().map(|index| self.signings[index].offset)
    }
}
