//! Compares assembler text that has `.cfi_*` directives with the object that an assembler makes of it. A label before
//! each directive gives its offset, so this code needs no sizes of instructions.

mod corpus;
mod object;
mod text;

pub use corpus::{Case, corpus};
pub use object::{Object, Reference};
pub use text::{Function, Source, instrument, skipped};
