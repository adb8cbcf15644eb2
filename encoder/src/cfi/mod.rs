//! `.eh_frame` and `.debug_frame`: records, and the call frame instructions in them.

mod record;

pub use record::{Cie, Error, Function, Functions, Section, SectionKind};
