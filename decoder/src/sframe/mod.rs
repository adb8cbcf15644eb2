//! Reads `.sframe`, versions 1, 2 and 3, in either byte order.
//!
//! Start with [`Section::parse`]. It checks the header and the bounds of both sub-sections. Then:
//! - [`Section::lookup`] finds the row for a PC.
//! - [`Section::lookup_frame`] also returns whether the function is a signal frame. Use it to go from frame to
//!   frame.
//! - [`Index`] makes lookups about twice as fast. It uses memory that you give it.
//! - [`step`] applies a row: it takes the registers of a frame to the registers of its caller.
//! - [`Section::functions`] and [`Function::rows`] list the whole table, and [`Section::dump`] prints it.
//! - [`Section::concatenated`] reads a section that holds several tables.
//!
//! A lookup checks only the bytes that it passes. [`Section::validate`] checks the whole table.
//!
//! A PC without a row is not an error. The PC may lie outside every function of the table, or before the first
//! row of its function. Or GNU `as` could not describe the function, and has written it without rows. A missing
//! row does not mean that the frame is outermost: an outermost frame has a row with an undefined return
//! address.
//!
//! # Refused input
//! The reader refuses everything that would make an answer wrong:
//! - sub-sections or rows that are out of bounds;
//! - unknown flags, versions, ABIs and types;
//! - rows that are out of order or start beyond the end of their function;
//! - numbers of words and control words that the format does not define;
//! - a fixed return address offset that is not the ABI's;
//! - more rows than [`MAX_FRES_PER_BYTE`](cfipack_format::sframe::MAX_FRES_PER_BYTE) allows. Functions can
//!   share rows, and a shared row counts for each function. With this limit, listing all rows takes time in
//!   proportion to the table.
//!
//! The reader accepts the output of GNU `as` and `ld` 2.44 and 2.47 and of LLVM 23, including its oddities: a
//! row that starts where the row before it starts, a row that starts at the end of its function, functions of
//! size 0, and zeros after the table.
//!
//! GNU `as` up to 2.44 does not set the flag for starts that are relative to their own field, although the
//! relocations in its objects make the starts relative to their field. In a linked file this is correct,
//! because `ld` adjusts the starts. In an *object* this reader, like readelf, counts each start from the
//! section, and is off by the field's offset. [`Section::relocated`] corrects this.

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

pub use error::Error;
pub use fde::Function;
pub use fre::{Fre, Fres, Rows};
pub use index::Index;
pub use lookup::Frame;
pub use section::Section;
pub use step::{Caller, Registers, StepError, step};
pub use tables::{TableError, Tables};
