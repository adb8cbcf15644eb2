//! The table: entries, blocks of rows, and the section that is written.
//!
//! In: for each function its start, its size and the bytes of its FREs. Out: a [`section::Section`] of exact size, which
//! writes header, index and rows once addresses are known. Equal blocks are stored once ([`block`]), functions that share
//! PCs are separated ([`overlap`]), and neighbours become one FDE on request ([`merge`]). What a lookup answers is the
//! same with and without sharing and merging.

pub(crate) mod apart;
pub(crate) mod at;
pub(crate) mod block;
pub(crate) mod by_key;
pub(crate) mod chunk;
pub(crate) mod conflict;
mod distant;
pub(crate) mod encoded;
pub(crate) mod entries;
pub(crate) mod hash_index;
pub(crate) mod merge;
pub(crate) mod order;
pub(crate) mod overlap;
pub(crate) mod pieces;
pub(crate) mod place;
pub(crate) mod read_back;
pub(crate) mod rebuilt;
pub(crate) mod section;
pub(crate) mod wide_attribute;
pub(crate) mod write_error;
