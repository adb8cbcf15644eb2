//! The table with its addresses.

use alloc::vec::Vec;

use cfipack_encoder::unwind_info as encoder;
use cfipack_encoder::unwind_info::WriteError;
use cfipack_format::{ImageOffset, PersonalityKey};

use super::{Section, Warning};

/// A table that is laid out.
#[derive(Debug)]
pub struct Table<'a> {
    pub(super) section: &'a Section,
    pub(super) placed: encoder::Placed,
    pub(super) warnings: Vec<Warning>,
}

impl Table<'_> {
    /// Bytes of the table; 0 where there is none, as no function has unwind information.
    pub fn len(&self) -> usize {
        self.placed.len()
    }

    /// Returns whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// Warnings about what has no address, or no place that the table can name.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Writes the table to the front of `out`, which has at least [`len`](Self::len) bytes; the rest of it is set to
    /// zero. `slot_of` gives the image offset of the pointer slot (in `__got`) that holds the address of a personality;
    /// it is asked once for each one that the table names, of those in [`Section::personalities`].
    ///
    /// # Errors
    /// `out` is shorter.
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
