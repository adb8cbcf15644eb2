//! Mach-O files, relocatable and linked: x86-64, i386, arm64 and arm64_32, all little endian.
//!
//! The sections of a relocatable object have addresses of their own that do not overlap, so no
//! [`Placement`](crate::Placement) is needed: where it speaks of "apart", these are meant.

pub(crate) mod compact_unwind;
pub(crate) mod file;
pub(crate) mod headers;
mod kinds;
mod range;
pub(crate) mod relocate;
pub(crate) mod symbols;
