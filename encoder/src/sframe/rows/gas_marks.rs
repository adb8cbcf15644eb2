//! Facts that gas knows from a function's directives, and that call frame information does not have.

use crate::Reason;
use crate::cfi::Function;

/// Facts that gas knows from the directives of a function, and that the call frame information does not have.
/// Layout `Gnu` follows them. No row of layout `Small` depends on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct GasMarks {
    /// True if a `DW_CFA_advance_loc` by nothing marks the border between two of gas's fragments. No assembler
    /// writes this instruction. A fragment ends at code of a size that gas does not know at once, for example
    /// at an alignment that added no byte. gas ends a row there as at any other advance.
    pub zero_advances: bool,
    /// The place where gas decides to omit the function, in bytes from the function's start, and the reason.
    pub omitted: Option<(u64, Reason)>,
}

impl GasMarks {
    /// Sets whether [advances by nothing](Self::zero_advances) count.
    #[must_use]
    pub const fn with_zero_advances(self, zero_advances: bool) -> Self {
        Self { zero_advances, ..self }
    }

    /// Sets where and why gas omits the function.
    #[must_use]
    pub const fn with_omitted(self, offset: u64, reason: Reason) -> Self {
        Self { omitted: Some((offset, reason)), ..self }
    }
}

/// A function with the facts that gas knows beside its call frame information.
#[derive(Clone, Copy, Debug)]
pub struct Marked<'f, 'a> {
    pub(crate) function: &'f Function<'a>,
    pub(crate) marks: GasMarks,
}

impl<'f, 'a> Marked<'f, 'a> {
    /// Adds marks to a function.
    pub const fn new(function: &'f Function<'a>, marks: GasMarks) -> Self {
        Self { function, marks }
    }
}

impl<'f, 'a> From<&'f Function<'a>> for Marked<'f, 'a> {
    /// Takes a function without marks.
    #[inline]
    fn from(function: &'f Function<'a>) -> Self {
        Self::new(function, GasMarks::default())
    }
}
