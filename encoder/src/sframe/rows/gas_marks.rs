//! What gas knows from a function's directives and its call frame information does not have.

use crate::Reason;

/// What gas knows from the directives of a function, and the call frame information that it writes does not have. Layout
/// `Gnu` follows it; no row of layout `Small` depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct GasMarks {
    /// Whether `DW_CFA_advance_loc` by nothing, which no assembler writes, stands for the border of two of gas's
    /// fragments: of code whose size gas does not know at once, such as an alignment that added no byte. gas ends a row
    /// there as at any other advance.
    pub zero_advances: bool,
    /// Why gas omits the function, and where: bytes from its start.
    pub omitted: Option<(u64, Reason)>,
}

impl GasMarks {
    /// The same, with advances by nothing that count.
    pub const fn with_zero_advances(self) -> Self {
        Self { zero_advances: true, ..self }
    }

    /// The same for a function that gas omits.
    pub const fn with_omitted(self, offset: u64, reason: Reason) -> Self {
        Self { omitted: Some((offset, reason)), ..self }
    }
}
