//! The CIEs of a builder's functions, numbered by their meaning.

use alloc::vec::Vec;

use cfipack_format::sframe::Version;

use crate::cfi::StackPointer;
use crate::cfi::{Cie, Function, Interpreter};
use crate::sframe::fast::common_cie::CommonCie;
use crate::sframe::rows::small::flags;

/// The largest number of CIEs. Real sections have a handful. Functions of further CIEs take the general path.
const MAX_CIES: usize = 16;

/// CIEs that differ in meaning, numbered.
#[derive(Clone, Debug)]
pub(crate) struct Cies<'a> {
    numbered: Vec<NumberedCie<'a>>,
    last: usize,
    /// The bytes of CIEs with plain FDEs, and their numbers.
    of_bytes: Vec<(&'a [u8], u8)>,
}

#[derive(Clone, Debug)]
struct NumberedCie<'a> {
    cie: Cie<'a>,
    /// The number of this CIE, or of an earlier CIE, if the common functions of both have the same meaning.
    number: u8,
    common: Option<CommonCie>,
}

impl<'a> Cies<'a> {
    pub(crate) fn new() -> Self {
        Self { numbered: Vec::new(), last: 0, of_bytes: Vec::new() }
    }

    /// Returns the number of the CIE whose record has these bytes, if it is known and its FDEs can be plain.
    /// The objects of a link have the same few CIEs.
    pub(crate) fn number_of_bytes(&self, bytes: &[u8]) -> Option<u8> {
        self.of_bytes.iter().find(|(known, _)| *known == bytes).map(|(_, number)| *number)
    }

    /// Remembers the bytes of a CIE's record, for [`number_of_bytes`](Self::number_of_bytes).
    pub(crate) fn note_bytes(&mut self, number: u8, bytes: Option<&'a [u8]>) {
        if let Some(bytes) = bytes.filter(|bytes| self.number_of_bytes(bytes).is_none())
            && self.of_bytes.len() < MAX_CIES
        {
            self.of_bytes.push((bytes, number));
        }
    }

    /// Returns the state in which the common functions of a CIE begin, if it has common functions.
    #[inline(always)]
    pub(crate) fn common(&self, number: u8) -> Option<&CommonCie> {
        self.numbered.get(usize::from(number))?.common.as_ref()
    }

    /// Returns the number of a function's CIE, or `None` if there are too many CIEs.
    #[inline]
    pub(crate) fn number(
        &mut self,
        function: &Function<'a>,
        version: Version,
        interpreter: &mut Interpreter<'a, StackPointer>,
    ) -> Option<u8> {
        match self.numbered.get(self.last) {
            Some(last) if last.cie.means_the_same(&function.cie) => Some(last.number),
            _ => self.other_number(function, version, interpreter),
        }
    }

    #[cold]
    fn other_number(
        &mut self,
        function: &Function<'a>,
        version: Version,
        interpreter: &mut Interpreter<'a, StackPointer>,
    ) -> Option<u8> {
        let cie = function.cie;
        if let Some(last) = self.numbered.iter().position(|numbered| numbered.cie.means_the_same(&cie)) {
            self.last = last;
        } else if self.numbered.len() < MAX_CIES {
            let (own, arch, info) = (self.numbered.len() as u8, function.arch(), flags(&cie, version));
            let state = interpreter.run_cie(function).ok();
            let common = state.and_then(|state| CommonCie::new(own, &cie, &state, arch, info));
            let same = self.numbered.iter().find(|other| match (&other.common, &common) {
                (Some(other), Some(common)) => other.means_the_same(common),
                _ => false,
            });
            let number = same.map_or(own, |other| other.number);
            self.last = own.into();
            self.numbered.push(NumberedCie { cie, number, common });
        } else {
            return None;
        }
        Some(self.numbered[self.last].number)
    }
}
