//! A cache of the CIEs of recent FDEs.

use alloc::boxed::Box;
use core::fmt;

use cfipack_format::{Endian, SectionOffset};

use crate::pointer::PointerEncoding;
use crate::record::Records;
use crate::{Cie, Error, SectionKind};

/// Real sections have a handful of CIEs. Hostile sections may have as many CIEs as FDEs.
const COUNT: usize = 16;

/// A cache of CIEs by their offset.
#[derive(Clone)]
pub(crate) struct CieCache<'a> {
    /// The parts of the CIEs that the loop over plain FDEs reads.
    heads: [Head; COUNT],
    /// The CIEs that have been parsed. `None` before the first.
    cies: Option<Box<[Option<Cie<'a>>; COUNT]>>,
}

#[derive(Clone, Copy)]
struct Head {
    /// The offset of the CIE.
    at: usize,
    /// True if the FDEs of this CIE can be [plain](crate::PlainFde).
    is_plain: bool,
    /// The number that the caller has given to a CIE with plain FDEs.
    number: Option<u8>,
}

impl Head {
    const NONE: Self = Self { at: usize::MAX, is_plain: false, number: None };
}

impl fmt::Debug for CieCache<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CieCache")
    }
}

impl<'a> CieCache<'a> {
    pub(crate) fn new() -> Self {
        Self { heads: [Head::NONE; COUNT], cies: None }
    }

    /// Returns the slot of a CIE. CIEs are at least 12 bytes long and 4-aligned.
    #[inline(always)]
    fn slot(at: usize) -> usize {
        at / 4 % COUNT
    }

    /// Returns whether the cache has the CIE at this offset and its FDEs can be plain.
    #[inline(always)]
    pub(crate) fn is_plain(&self, at: usize) -> bool {
        let head = &self.heads[Self::slot(at)];
        head.at == at && head.is_plain
    }

    /// Returns the number of a CIE, if the caller has given it a number.
    #[inline(always)]
    pub(crate) fn number(&self, at: usize) -> Option<u8> {
        let head = &self.heads[Self::slot(at)];
        head.number.filter(|_| head.at == at)
    }

    /// Gives a number to a CIE, if the cache has it and its FDEs can be plain. Returns whether its meaning
    /// depends on nothing but its bytes.
    pub(crate) fn set_number(&mut self, at: usize, number: u8) -> bool {
        if !self.is_plain(at) {
            return false;
        }
        self.heads[Self::slot(at)].number = Some(number);
        let cie = self.cies.as_ref().and_then(|cies| cies[Self::slot(at)].as_ref());
        cie.is_some_and(|cie| !cie.personality.is_some_and(|personality| personality.encoding.is_aligned()))
    }

    /// Inserts a CIE that has not been parsed. Its FDEs can be plain.
    pub(crate) fn insert_plain(&mut self, at: usize, number: u8) {
        self.heads[Self::slot(at)] = Head { at, is_plain: true, number: Some(number) };
        if let Some(cies) = &mut self.cies {
            cies[Self::slot(at)] = None;
        }
    }

    /// Returns the CIE at an offset. Parses it if the cache does not have it.
    #[inline]
    pub(crate) fn get(
        &mut self,
        at: usize,
        section: &Records<'a>,
        parse: impl FnOnce() -> Result<Cie<'a>, Error>,
    ) -> Result<&Cie<'a>, Error> {
        let head = &mut self.heads[Self::slot(at)];
        let cies = self.cies.get_or_insert_with(|| Box::new([None; COUNT]));
        let cie = &mut cies[Self::slot(at)];
        if head.at != at || cie.is_none() {
            let number = head.number.filter(|_| head.at == at);
            *head = Head::NONE;
            let parsed = parse()?;
            *head = Head { at, is_plain: has_plain_fdes(section, &parsed), number };
            return Ok(cie.insert(parsed));
        }
        cie.as_ref().ok_or(Error::Truncated { offset: SectionOffset(at) })
    }
}

fn has_plain_fdes(section: &Records<'_>, cie: &Cie<'_>) -> bool {
    section.kind == SectionKind::EhFrame
        && section.arch.endian() == Endian::Little
        && cie.fde_encoding == PointerEncoding::PC_RELATIVE_SIGNED_4
        && cie.has_data
}
