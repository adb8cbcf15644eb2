//! Converts a section on several threads: chunks become shards, and the
//! builder absorbs the shards in order.
//!
//! The input is a section of CFI, or shards that the caller filled. The output is a single builder. The bytes
//! of the section are the same for any number of threads, and for any order in which a pool runs its tasks.
//!
//! `chunks` divides a section, [`shards`] adds a shard to a builder, and [`source`] has the public
//! [`Parallel`](source::Parallel).

mod chunks;
pub(crate) mod shards;
pub(crate) mod source;
