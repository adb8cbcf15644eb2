//! Lists a function's instructions beside the rows that describe them. `explain` prints this [`listing`].

mod disassembly;
mod frame;
pub mod listing;
mod marks;
mod rows;

pub use disassembly::with_target;
