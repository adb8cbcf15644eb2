//! Code that exists for speed alone: common functions go from their instructions to FREs without becoming rows.
//!
//! In: FDEs of the plain form ([`PlainFde`](crate::cfi::PlainFde)), in batches. Out: entries and blocks.
//!
//! A function is *common* if it is pushed in layout `Small`, its CIE sets the CFA by `DW_CFA_def_cfa` and has nothing
//! that [`common_cie`] does not know, and its instructions only advance, change the CFA's register and offset, save,
//! restore and forget registers, and remember and restore states ([`track`], [`rules`]). Any other, one with
//! malformed instructions among them, goes the general way from its start: nothing is decided here but speed.
//!
//! **Contract:** for every function the bytes are those that the general way ([`rows`](super::rows)) makes of it. The
//! properties in `tests/` compare the two on random CFI, and the bench `ratios` has a row for what each layer earns:
//! [`batch`] (what a step waits for, it awaits for sixteen functions together), [`memo`] (equal instructions have equal
//! FREs), [`direct`] (from instructions to FREs by a table).
//!
//! A layer stays that saves at least a tenth of the instructions: `tests/counted/run` counts those of conversion with all
//! layers, function by function with `direct` alone, and by the general path. Batches serve the memo and the
//! lookup of equal blocks: where nothing is shared, functions are pushed one by one.

pub(crate) mod batch;
pub(crate) mod cies;
pub(crate) mod common_cie;
pub(crate) mod direct;
pub(crate) mod memo;
pub(crate) mod pattern;
pub(crate) mod rules;
pub(crate) mod track;
