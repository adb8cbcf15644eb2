//! `ar` archives: their members replaced by others.

mod entries;
pub(crate) mod members;
mod symbol_index;
pub(crate) mod thin;
