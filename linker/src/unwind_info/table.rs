//! [`Table`]: the table with its addresses, ready to be written.

use alloc::vec::Vec;

use cfipack_encoder::unwind_info as encoder;
use cfipack_encoder::unwind_info::WriteError;
use cfipack_format::{ImageOffset, PersonalityKey};

use super::{Section, Warning};

/// A table that [`Section::place`] has laid out.
#[derive(Debug)]
pub struct Table<'a> {
    pub(super) section: &'a Section,
    pub(super) placed: encoder::Placed,
    pub(super) warnings: Vec<Warning>,
}

impl Table<'_> {
    /// Returns the size of the table in bytes. It is 0 if no function has unwind information, because then there is
    /// no table.
    pub fn len(&self) -> usize {
        self.placed.len()
    }

    /// Returns whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// Returns warnings about functions, LSDAs and FDEs that have no address, or no place that the table can name.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Writes the table to the start of `out`, which must have at least [`len`](Self::len) bytes, and sets
    /// the rest of `out` to zero. `slot_of` returns the image offset of the pointer slot (in `__got`) that
    /// holds the address of a personality. It is called once for each personality that the table names.
    /// [`Section::personalities`] has all of these.
    ///
    /// # Errors
    /// Returns an error if `out` is too short.
    pub fn write(
        &self,
        out: &mut [u8],
        mut slot_of: impl FnMut(PersonalityKey) -> ImageOffset,
    ) -> Result<(), WriteError> {
        let (given, needed) = (out.len(), self.len());
        let (table, rest) =
            out.split_at_mut_checked(needed).ok_or(WriteError::OutputLength { given, needed })?;
        rest.fill(0);
        self.placed.write(table, |number| slot_of(self.section.personality(number)))
    }
}
