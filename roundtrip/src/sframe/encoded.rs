//! A function's rows as its table stores them.

use cfipack_decoder::sframe::Function;
use cfipack_format::sframe::{FdeType, FreType};

use crate::cfi::Flags;

/// The bytes of a function's rows, and how they are to be read: of equal ones the rows are equal, counted from the
/// functions' starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Encoded<'t> {
    /// The index of the table.
    section: u32,
    num_fres: u32,
    fre_type: FreType,
    fde_type: FdeType,
    flags: Flags,
    bytes: &'t [u8],
}

impl<'t> Encoded<'t> {
    /// The rows of the function of the table with this number, with all that follows them: only reading them shows where
    /// they end.
    pub(crate) fn with_rest(section: u32, function: &Function<'t>, flags: Flags) -> Self {
        Self {
            section,
            num_fres: function.num_fres(),
            fre_type: function.fre_type(),
            fde_type: function.fde_type(),
            flags,
            bytes: function.fres().rest(),
        }
    }

    /// Without what follows them.
    pub(crate) fn without_rest(self, rest: &[u8]) -> Self {
        Self { bytes: &self.bytes[..self.bytes.len() - rest.len()], ..self }
    }

    /// Returns whether these, without a rest, are the same as those of a function with one.
    pub(crate) fn are_those_of(&self, other: &Self) -> bool {
        other.bytes.starts_with(self.bytes) && Self { bytes: self.bytes, ..*other } == *self
    }
}
