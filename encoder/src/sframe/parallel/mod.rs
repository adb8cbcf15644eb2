//! Several threads: chunks of a section are converted as shards and absorbed in order.
//!
//! In: a section of CFI, or shards that the caller filled. Out: one builder. The bytes of the section are the same for
//! any number of threads, and for any order in which a pool runs its tasks.

mod chunks;
pub(crate) mod shards;
pub(crate) mod source;
