//! Remembers functions for which CFI and table agree, so that another function with the same bytes need not be judged.

use cfipack_format::widen::ToUsize;

use super::agree::Agreed;
use crate::cfi::Program;
use crate::sframe::encoded::Encoded;

/// The greatest number of functions that are remembered. This bounds the memory of a thread to 4 MB.
const MOST: usize = 1 << 15;

/// The bytes by which CFI and table describe a function. They do not depend on its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Described<'f, 't> {
    pub program: Program<'f>,
    /// The bytes of the table's function: its rows and everything after them.
    pub encoded: Encoded<'t>,
    /// The size in bytes.
    pub size: u64,
}

/// Functions for which CFI and table agree at every PC. The hash of the program gives the slot.
#[derive(Debug)]
pub(super) struct EqualFunctions<'f, 't> {
    slots: Vec<Option<EqualFunction<'f, 't>>>,
}

/// A function for which CFI and table agree at every PC.
#[derive(Debug)]
struct EqualFunction<'f, 't> {
    program: Program<'f>,
    encoded: Encoded<'t>,
    /// The start of the last row, of the CFI or the table. From this row on, neither answer changes, however long the
    /// function is.
    last: u64,
    /// True if an instruction moves to an address, so that the rows depend on the function's address. `None` if this is
    /// not known yet.
    has_addresses: Option<bool>,
}

impl<'f, 't> EqualFunctions<'f, 't> {
    /// Starts without functions, with slots for about `functions` functions.
    pub(super) fn new(functions: usize) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(functions.next_power_of_two().min(MOST), || None);
        Self { slots }
    }

    fn slot(&mut self, program: &Program<'f>) -> &mut Option<EqualFunction<'f, 't>> {
        // The upper bits of the hash are better distributed than the lower bits.
        let slot = (program.hash() >> 40).to_usize() & (self.slots.len() - 1);
        &mut self.slots[slot]
    }

    /// Returns whether a function has the same bytes as a remembered function. `has_addresses` returns whether an
    /// instruction of the function moves to an address.
    pub(super) fn has(&mut self, function: &Described<'f, 't>, has_addresses: impl FnOnce() -> bool) -> bool {
        let Some(equal) = self.slot(&function.program) else { return false };
        equal.program == function.program
            && equal.last < function.size
            && equal.encoded.are_rows_of(&function.encoded)
            && !*equal
                .has_addresses
                .get_or_insert_with(|| function.program.may_have_addresses() && has_addresses())
    }

    /// Remembers a function for which CFI and table agree. It replaces the function in its slot.
    pub(super) fn insert(&mut self, function: &Described<'f, 't>, agreed: &Agreed<'t>) {
        let (program, last) = (function.program, agreed.last);
        if last < function.size {
            let encoded = function.encoded.without_rest(agreed.rest);
            *self.slot(&program) = Some(EqualFunction { program, encoded, last, has_addresses: None });
        }
    }
}
