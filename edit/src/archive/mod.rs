//! Replaces the members of `ar` archives.

mod entries;
pub(crate) mod members;
mod symbol_index;
pub(crate) mod thin;
