//! The CIEs of a builder's functions, numbered by their meaning.

use alloc::vec::Vec;

use cfipack_format::sframe::Version;

use crate::cfi::StackPointer;
use crate::cfi::{Cie, Function, Interpreter};
use crate::sframe::fast::common_cie::CommonCie;
use crate::sframe::rows::small::flags;

/// Real sections have a handful of CIEs. Functions of further CIEs are interpreted every time.
const MAX_CIES: usize = 16;

/// CIEs that differ in meaning, numbered.
#[derive(Clone, Debug)]
pub(crate) struct Cies<'a> {
    known: Vec<Known<'a>>,
    last: usize,
}

#[derive(Clone, Debug)]
struct Known<'a> {
    cie: Cie<'a>,
    /// The number of the CIE, or of another CIE with different instructions if their common functions have the
    /// same meaning.
    number: u8,
    common: Option<CommonCie>,
}

impl<'a> Cies<'a> {
    pub(crate) fn new() -> Self {
        Self { known: Vec::new(), last: 0 }
    }

    /// The state that the common functions of a CIE share.
    #[inline(always)]
    pub(crate) fn common(&self, number: u8) -> Option<&CommonCie> {
        self.known.get(usize::from(number))?.common.as_ref()
    }

    /// The number of a function's CIE.
    #[inline]
    pub(crate) fn number(
        &mut self,
        function: &Function<'a>,
        version: Version,
        interpreter: &mut Interpreter<'a, StackPointer>,
    ) -> Option<u8> {
        match self.known.get(self.last) {
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
        if let Some(last) = self.known.iter().position(|known| known.cie.means_the_same(&cie)) {
            self.last = last;
        } else if self.known.len() < MAX_CIES {
            let (own, arch, info) = (self.known.len() as u8, function.arch(), flags(&cie, version));
            // Functions that are counted are not common.
            let common = interpreter.run_cie(function).ok().filter(|_| !interpreter.met_outside_dwarf());
            let common = common.and_then(|state| CommonCie::new(own, &cie, &state, arch, info));
            let same = |known: &&Known<'_>| match (&known.common, &common) {
                (Some(known), Some(common)) => known.means_the_same(common),
                _ => false,
            };
            let number = self.known.iter().find(same).map_or(own, |known| known.number);
            self.last = own.into();
            self.known.push(Known { cie, number, common });
        } else {
            return None;
        }
        Some(self.known[self.last].number)
    }
}
