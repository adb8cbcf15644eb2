//! Encodes common functions quickly, from instructions to FREs without rows. This module exists for speed
//! alone.
//!
//! The input is FDEs of the plain form ([`PlainFde`](crate::cfi::PlainFde)). The output is entries and blocks.
//!
//! You push a *common* function in layout `Small`. Its CIE defines the CFA as a register plus an offset, and
//! has nothing that [`common_cie`] does not know. The function's instructions only advance, change the CFA's
//! register and offset, save and restore registers, remember and restore states, sign the return address, or
//! give the size of arguments ([`track`], [`rules`]). Any other function takes the general path from its
//! start, and so does a function with malformed instructions. The path changes nothing but the speed.
//!
//! **Contract:** for every function, the bytes are equal to the bytes of the general path
//! ([`rows`](super::rows)). The properties in `tests/` compare the two paths on random CFI. The bench `ratios`
//! has a row for the gain of each layer:
//!
//! - [`memo`] finds functions with equal instructions, because their FREs are equal.
//! - [`direct`] goes from instructions to FREs with a table.
//!
//! A layer stays if it saves at least a tenth of the instructions. `tests/counted/run` counts the instructions
//! of a conversion with all layers, with `direct` alone for each function, and by the general path. The memo
//! finds blocks, so it has no use if nothing is shared.

pub(crate) mod cies;
pub(crate) mod common_cie;
pub(crate) mod direct;
pub(crate) mod memo;
pub(crate) mod pattern;
pub(crate) mod rules;
pub(crate) mod track;

#[cfg(test)]
mod tests;
