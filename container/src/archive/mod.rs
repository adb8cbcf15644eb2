//! `ar` archives: their entries and members.

pub(crate) mod entries;
pub(crate) mod members;
pub(crate) mod symbol_index;
pub(crate) mod thin;
