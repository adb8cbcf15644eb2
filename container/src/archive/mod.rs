//! Reads `ar` archives.
//!
//! - [`entries`]: everything in an archive, with the place of each part in the file
//! - [`members`]: only the files in an archive, or in a fat file
//! - [`thin`]: members of thin archives, which are files of their own
//! - [`symbol_index`]: the index that leads from symbols to members

pub(crate) mod entries;
pub(crate) mod members;
pub(crate) mod symbol_index;
pub(crate) mod thin;
