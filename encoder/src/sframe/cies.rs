//! The CIEs of the functions that a builder has seen, told apart by what they mean.

use alloc::vec::Vec;

use cfipack_format::Arch;
use cfipack_format::sframe::Version;

use super::direct::CommonCie;
use super::small::flags;
use super::stack_pointer::StackPointer;
use crate::cfi::{Cie, Function, Interpreter};

/// Real sections have a handful of CIEs; functions of further ones are interpreted every time.
const MAX_CIES: usize = 16;

/// CIEs that differ in meaning, numbered.
#[derive(Clone, Debug)]
pub(super) struct Cies<'a> {
    known: Vec<(Cie<'a>, Option<CommonCie>)>,
    last: usize,
}

impl<'a> Cies<'a> {
    pub(super) fn new() -> Self {
        Self { known: Vec::new(), last: 0 }
    }

    /// What the common functions of a CIE have in common.
    #[inline(always)]
    pub(super) fn common(&self, number: u8) -> Option<&CommonCie> {
        self.known.get(usize::from(number))?.1.as_ref()
    }

    /// The number of a function's CIE.
    #[inline]
    pub(super) fn number(
        &mut self,
        function: &Function<'a>,
        version: Version,
        interpreter: &mut Interpreter<'a, StackPointer>,
    ) -> Option<u8> {
        match self.known.get(self.last) {
            Some((last, _)) if last.means_the_same(&function.cie) => Some(self.last as u8),
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
        let cie = &function.cie;
        let known = self.known.iter().position(|(known, _)| known.means_the_same(cie));
        if known.is_none() {
            if self.known.len() == MAX_CIES {
                return None;
            }
            let (number, arch): (_, Arch) = (self.known.len() as u8, function.arch());
            let info = flags(cie, version);
            let common = (interpreter.run_cie(function).ok())
                .and_then(|state| CommonCie::new(number, cie, &state, arch, info));
            self.known.push((*cie, common));
        }
        self.last = known.unwrap_or(self.known.len() - 1);
        Some(self.last as u8)
    }
}
