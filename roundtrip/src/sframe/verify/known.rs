//! Remembers functions that were found equal, so that a function with the same bytes in CFI and table need not be
//! judged.

use cfipack_format::widen::ToUsize;

use super::agree::Agreed;
use crate::cfi::Program;
use crate::sframe::encoded::Encoded;

/// The greatest number of functions that are remembered. It bounds the memory of a thread to 4 MB.
const MOST: usize = 1 << 15;

/// A function as CFI and table describe it, without its address.
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
pub(super) struct Known<'f, 't> {
    slots: Vec<Option<Equal<'f, 't>>>,
}

/// A function for which CFI and table agree at every PC.
#[derive(Debug)]
struct Equal<'f, 't> {
    program: Program<'f>,
    encoded: Encoded<'t>,
    /// The start of the last row of the CFI and the table. From there on both give the same answer, however long the
    /// function is.
    last: u64,
    /// True if an instruction moves to an address, so that the rows depend on the address. `None` if that is not known
    /// yet.
    has_addresses: Option<bool>,
}

impl<'f, 't> Known<'f, 't> {
    /// Starts without functions, with slots for about `functions` functions.
    pub(super) fn new(functions: usize) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(functions.next_power_of_two().min(MOST), || None);
        Self { slots }
    }

    fn slot(&mut self, program: &Program<'f>) -> &mut Option<Equal<'f, 't>> {
        // The upper bits of the hash are the good ones.
        let slot = (program.hash() >> 40).to_usize() & (self.slots.len() - 1);
        &mut self.slots[slot]
    }

    /// Returns whether a function repeats a function that was found equal. `has_addresses` returns whether an
    /// instruction of the function moves to an address.
    pub(super) fn has(&mut self, function: &Described<'f, 't>, has_addresses: impl FnOnce() -> bool) -> bool {
        let Some(equal) = self.slot(&function.program) else { return false };
        equal.program == function.program
            && equal.last < function.size
            && equal.encoded.are_those_of(&function.encoded)
            && !*equal
                .has_addresses
                .get_or_insert_with(|| function.program.may_have_addresses() && has_addresses())
    }

    /// Remembers a function for which CFI and table agree. It replaces the function in its slot.
    pub(super) fn insert(&mut self, function: &Described<'f, 't>, agreed: &Agreed<'t>) {
        let (program, last) = (function.program, agreed.last);
        if last < function.size {
            let encoded = function.encoded.without_rest(agreed.rest);
            *self.slot(&program) = Some(Equal { program, encoded, last, has_addresses: None });
        }
    }
}
