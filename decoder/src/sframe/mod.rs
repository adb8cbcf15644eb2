//! `.sframe`, versions 1, 2 and 3, of either byte order.
//!
//! [`Section::parse`] checks the header and where things lie; [`Section::lookup`] finds the row for
//! a PC, [`Section::functions`] and [`Function::rows`] walk the table, [`dump`] prints it. For many
//! lookups an [`Index`] in memory of your own makes them about twice as fast. [`step`] takes a row to
//! the registers of the caller; who goes from frame to frame asks [`Section::lookup_frame`], which says
//! also whether the next PC is that of a call.
//!
//! Lookups check what they pass; they do not read the rest of the table. [`Section::validate`] does.
//!
//! A PC without a row is no error. It may lie in no function of the table, in a function of which
//! the assembler could not say how to unwind it (GNU `as` writes those without any row), or before
//! a function's first row. It does not mean that the frame is outermost, for which there is a row
//! with an undefined return address.
//!
//! # What is refused
//! Whatever would make an answer wrong: sub-sections or rows out of bounds, unknown flags, versions,
//! ABIs and types, rows out of order or beyond their function, numbers of words and control words
//! that no rule has, a fixed return address offset that is not the ABI's. And more rows, those that
//! functions share counted for each, than
//! [`MAX_FRES_PER_BYTE`](cfipack_format::sframe::MAX_FRES_PER_BYTE) allows: a walk takes time in
//! proportion to the table. What GNU `as` and `ld`
//! 2.44 and 2.47 and LLVM 23 write is read, their oddities included: rows that start where the one
//! before or their function's end does, functions of size 0, zeros behind the table.
//!
//! GNU `as` up to 2.44 leaves the flag clear that says what starts are relative to, although its objects'
//! relocations make them relative to their fields; as in readelf, a start is then counted from
//! the section, and in such an *object* is off by the field's offset. [`Section::relocated`] reads it
//! as it was meant. Its linker makes it right.

mod dump;
mod error;
mod fde;
mod fre;
mod index;
mod lookup;
mod row;
mod section;
mod step;
mod tables;
mod widest;

pub use dump::dump;
pub use error::Error;
pub use fde::Function;
pub use fre::{Fre, Fres, Rows};
pub use index::Index;
pub use lookup::Frame;
pub use section::Section;
pub use step::{Caller, Registers, StepError, step};
pub use tables::{TableError, Tables};
