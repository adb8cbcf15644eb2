//! A function's rows as its table stores them.

use cfipack_decoder::sframe::Function;
use cfipack_format::sframe::{FdeType, FreType};

use crate::cfi::Flags;

/// The bytes of a function's rows, and how to read them. If two values are equal, the rows are equal too, relative to
/// the functions' starts.
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
    /// Takes the rows of a function in the table with this index, with all bytes after them. Only reading the rows
    /// shows where they end.
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

    /// Removes the bytes after the rows.
    pub(crate) fn without_rest(self, rest: &[u8]) -> Self {
        Self { bytes: &self.bytes[..self.bytes.len() - rest.len()], ..self }
    }

    /// Returns whether `other` has the same rows. `other` may have bytes after its rows, but this value must not.
    pub(crate) fn are_rows_of(&self, other: &Self) -> bool {
        other.bytes.starts_with(self.bytes) && Self { bytes: self.bytes, ..*other } == *self
    }
}
