//! The question to the caller of [`verify_with_reasons`](crate::verify_with_reasons) about a function that a table
//! lacks. The verification does not know what the table's producer can represent.

use cfipack_format::cfi::Section;
use cfipack_format::{Address, SectionOffset, Unsupported};

/// A function of the CFI with a PC for which the table has no row.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MissingFunction<'a> {
    /// The section of CFI that describes the function.
    pub section: Section<'a>,
    /// The offset of the function's FDE in the section. If several FDEs have the same start, it is the longest.
    pub fde: SectionOffset,
    /// The first address.
    pub start: Address,
}

/// Returns why a function is missing, or `None` if it could be in the table.
pub(crate) type Reasons<'r, 'a> = &'r mut dyn FnMut(&MissingFunction<'a>) -> Option<Unsupported>;
