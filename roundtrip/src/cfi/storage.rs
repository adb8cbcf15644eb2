//! The memory that gimli evaluates in.

use gimli::{RegisterRule, UnwindContextStorage, UnwindTableRow};

/// gimli's own storage has room for 3 remembered states; this has room for 30.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deep;

impl UnwindContextStorage<usize> for Deep {
    type Rules = [(gimli::Register, RegisterRule<usize>); 192];
    type Stack = Box<[UnwindTableRow<usize, Self>; 32]>;
}
