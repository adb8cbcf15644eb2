//! Models the reader that the patches of April 2026 propose for the Linux kernel. It follows their rules and shares no
//! code with our decoder. [`Table`] reads bytes. [`step`] finds the caller of a frame by the table, or else by the
//! frame pointer.

mod table;
mod walk;

pub use table::{Refusal, Row, Table, Word};
pub use walk::{Caller, Frame, Machine, Stack, Stop, Way, step};
