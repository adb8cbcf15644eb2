//! Stacks of x86-64 programs that run, unwound by our tables and by CFI.

pub mod chain;
pub mod images;
