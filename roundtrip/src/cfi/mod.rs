//! The judge: what call frame information says, as gimli evaluates it.
//!
//! Nothing here runs any code of `cfipack-encoder` beyond its plain [`Section`](cfipack_format::cfi::Section)
//! struct: records are found by the few lines in `record`, everything in them is read and evaluated by gimli.

mod answer;
mod dispute;
mod evaluate;
mod expression;
mod functions;
mod record;
mod source;
mod storage;
mod translate;
mod unevaluated;

pub use answer::{Answer, Flags};
pub(crate) use dispute::DISPUTED;
pub use evaluate::{Evaluator, Handler};
pub use functions::{Function, Functions, Unreadable};
pub(crate) use record::record_offsets;
pub use unevaluated::Unevaluated;
