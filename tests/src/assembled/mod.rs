//! Assembler text with `.cfi_*` directives beside the object that an assembler made of it: the offsets of the
//! directives are those of labels that are put before each of them, so that no code here needs to know the size of an
//! instruction.

mod corpus;
mod object;
mod text;

pub use corpus::{Case, corpus};
pub use object::{Object, Reference};
pub use text::{Function, Source, instrument, skipped};
