//! `.eh_frame` and `.debug_frame`: records, and the call frame instructions in them.
//!
//! A [`Section`] yields its [`Function`]s; an [`Interpreter`] runs a function's instructions and
//! pushes [rows](cfipack_format::Row) into a [`RowSink`]. Nothing is collected on the way.
//!
//! Sources: DWARF 5 sections 6.4 and 7.24; the Linux Standard Base 5.0, "Exception Frames"; the
//! psABIs of x86-64, AArch64 and s390x for their own instructions and augmentation letters.

mod cie;
mod cursor;
mod cut;
mod error;
mod expression;
mod function;
mod instruction;
mod interpreter;
mod plain;
mod pointer;
mod section;
mod state;
mod stretch;

pub use cie::Cie;
pub use error::Error;
pub use expression::StubCfa;
pub use function::Function;
pub use instruction::{Instruction, Instructions};
pub use interpreter::{Change, Interpreter, RowSink};
pub(crate) use plain::{Code, PlainFde};
pub use pointer::PointerEncoding;
pub use section::{Functions, Section, SectionKind};
pub(crate) use state::RA_SIGN_STATE;
pub use state::{Registers, State};
pub use stretch::{Step, Stretch};
