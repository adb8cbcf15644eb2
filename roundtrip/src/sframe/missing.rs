//! A function that a table lacks, as the caller of [`verify_with_reasons`](crate::verify_with_reasons) is asked
//! about it: the judge compares, and does not know what the table's producer can represent.

use cfipack_format::cfi::Section;
use cfipack_format::{Address, SectionOffset, Unsupported};

/// A function of the CFI with a PC for which the table has no row.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MissingFunction<'a> {
    /// The section of CFI that describes it.
    pub section: Section<'a>,
    /// The offset of its FDE in that section; of several FDEs for one start, the longest.
    pub fde: SectionOffset,
    /// The first address.
    pub start: Address,
}

/// Knows why functions are missing.
pub(crate) type Reasons<'r, 'a> = &'r mut dyn FnMut(&MissingFunction<'a>) -> Option<Unsupported>;
