//! A function's instructions beside the rows that describe them: [`listing`] is what `explain` prints.

mod disassembly;
mod frame;
pub mod listing;
mod marks;
mod rows;

pub use disassembly::with_target;
