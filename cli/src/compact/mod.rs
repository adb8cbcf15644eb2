//! Reads the compact unwind tables of an object, and builds an `__unwind_info` section in memory.
//!
//! - `source` finds `__unwind_info` and `__compact_unwind` in an object.
//! - `encodings` computes the encodings of functions from their CFI, and `personalities` numbers their personalities.
//! - `entries` has the entries of a new table: from the file's tables, or from its CFI.
//! - `table` builds the table from its entries.

pub mod encodings;
pub mod entries;
pub mod personalities;
pub mod source;
pub mod table;
