//! The judge: call frame information as gimli evaluates it.
//!
//! It shares no code with `cfipack-cfi`, the reader that conversions use: the few lines in `record` find the records
//! of a [`Section`](cfipack_format::cfi::Section), and gimli reads and evaluates everything in them.

mod about;
mod answer;
mod cies;
mod dispute;
mod evaluate;
mod expression;
mod functions;
mod instructions;
mod program;
mod record;
mod source;
mod storage;
mod translate;
mod unevaluated;

pub use answer::{Answer, Flags};
pub(crate) use dispute::DISPUTED;
pub use evaluate::{Evaluator, Handler};
pub use functions::{Function, Functions, Unreadable};
pub(crate) use program::Program;
pub(crate) use record::record_offsets;
pub use unevaluated::Unevaluated;
