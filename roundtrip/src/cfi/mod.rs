//! Call frame information as gimli evaluates it.
//!
//! This module shares no code with `cfipack-cfi`, the reader for conversions. `record` finds the records of a
//! [`Section`](cfipack_format::cfi::Section) in a few lines. gimli reads and evaluates everything in the records.
//!
//! - [`Functions`]: the functions of a file, sorted by address. [`Unreadable`]: the records that gimli cannot read.
//! - [`Evaluator`]: evaluates a function. It returns an [`Answer`] for each range of PCs, or an [`Unevaluated`].
//! - `source`, `readable`, `unknown`, `raw`, `cies`: prepare a section for gimli. `translate`, `expression`: turn gimli's rows into our rows.
//! - `dispute`: FDEs that start at the same address and disagree.
//! - [`unjudged()`]: the FDEs that cannot be judged.
//! - `program`: compares two functions by their bytes. `instructions`: looks at single instructions.

mod about;
mod answer;
mod cies;
mod dispute;
mod evaluate;
mod expression;
mod functions;
mod instructions;
mod program;
mod raw;
mod readable;
mod record;
mod source;
mod storage;
mod translate;
mod unevaluated;
mod unjudged;
mod unknown;

pub use answer::{Answer, Flags};
pub use evaluate::{Evaluator, Handler};
pub use functions::{Function, Functions, Unreadable};
pub(crate) use program::Program;
pub(crate) use record::record_offsets;
pub use unevaluated::Unevaluated;
pub use unjudged::{Unjudged, unjudged};
