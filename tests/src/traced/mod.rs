//! Unwinds stacks of running x86-64 programs by our tables and by CFI.

pub mod chain;
pub mod images;
