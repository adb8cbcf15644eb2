//! Facts that gas knows from a function's directives and its call frame information does not have.

use crate::Reason;
use crate::cfi::Function;

/// Facts that gas knows from the directives of a function, and the call frame information that it writes does not have. Layout
/// `Gnu` follows it; no row of layout `Small` depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct GasMarks {
    /// True if `DW_CFA_advance_loc` by nothing, which no assembler writes, stands for the border of two of gas's
    /// fragments: of code whose size gas does not know at once, such as an alignment that added no byte. gas ends a row
    /// there as at any other advance.
    pub zero_advances: bool,
    /// The reason why gas omits the function, and where: bytes from its start.
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

/// A function, and what gas knows of it beside its call frame information.
#[derive(Clone, Copy, Debug)]
pub struct Marked<'f, 'a> {
    pub(crate) function: &'f Function<'a>,
    pub(crate) marks: GasMarks,
}

impl<'f, 'a> Marked<'f, 'a> {
    /// A function with these marks.
    pub const fn new(function: &'f Function<'a>, marks: GasMarks) -> Self {
        Self { function, marks }
    }
}

impl<'f, 'a> From<&'f Function<'a>> for Marked<'f, 'a> {
    /// A function of which nothing is known beside its call frame information.
    #[inline]
    fn from(function: &'f Function<'a>) -> Self {
        Self::new(function, GasMarks::default())
    }
}
