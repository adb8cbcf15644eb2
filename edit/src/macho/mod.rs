//! Replaces and adds rows of `__compact_unwind` in Mach-O objects.

pub(crate) mod compact_unwind;
mod headers;
mod layout;
mod relocate;
mod splices;
