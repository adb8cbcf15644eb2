//! The input of a verification, and the buffers that a thread needs for it.

use std::ops::Range;

use cfipack_format::Arch;

use super::decoded::Decoded;
use super::equal_functions::EqualFunctions;
use crate::cfi::{Evaluator, Functions};
use crate::sframe::table::Table;

/// The input of a verification.
#[derive(Debug)]
pub(super) struct Input<'q, 't> {
    pub functions: &'q Functions<'q>,
    /// The tails of all functions, in order of address.
    pub all_tails: Vec<Range<u64>>,
    pub tables: &'q Table<'t>,
    pub arch: Arch,
    /// True if a table may represent which functions are signal frames.
    pub signal: bool,
    pub padding: u64,
    /// The greatest number of differences that are described.
    pub limit: usize,
}

/// The buffers that a thread uses for all parts that it judges.
pub(super) struct Tools<'q, 't> {
    pub evaluator: Evaluator<'q>,
    pub equal_functions: EqualFunctions<'q, 't>,
    pub decoded: Decoded,
}

impl<'q, 't> Input<'q, 't> {
    pub(super) fn tools(&self) -> Tools<'q, 't> {
        let count = self.functions.as_slice().len();
        Tools {
            evaluator: Evaluator::new(self.functions),
            equal_functions: EqualFunctions::new(count),
            decoded: Decoded::new(),
        }
    }
}
