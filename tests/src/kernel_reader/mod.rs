//! A model of the reader that the series of April 2026 proposes for the Linux kernel, by its rules and not by our decoder:
//! [`Table`] reads bytes, [`step`] finds the caller of a frame, by the table or, where that has no answer, by the frame
//! pointer.

mod table;
mod walk;

pub use table::{Refusal, Row, Table, Word};
pub use walk::{Caller, Frame, Machine, Stack, Stop, Way, step};
