//! Collects entries and blocks of rows, and writes the section.
//!
//! The input is the start, the size and the FRE bytes of each function. The output is a [`section::Section`] of
//! exact size. It writes header, index and rows once addresses are known. Sharing and merging do not change the
//! answer to a lookup.
//!
//! - [`entries`], [`block`]: the index and the FRE sub-section under construction. Equal blocks are stored
//!   once.
//! - [`encoded`], [`read_back`]: rows that exist already, and rows that are read from blocks again.
//! - [`apart`], [`overlap`], [`rebuilt`]: finds and separates functions that share PCs.
//! - [`merge`]: makes an FDE of neighbouring functions, on request.
//! - [`section`], [`order`], [`place`], [`at`], [`write_error`]: writes the finished section.
//! - [`conflict`]: overlaps of functions that get their addresses last; [`distant`]: functions out of reach.
//! - [`combine`]: adds the functions of shards; [`grouped`]: sorts by counting.
//! - [`by_key`]: finds functions of an unfinished builder by their keys.
//! - [`hash_index`], [`chunk`], [`pieces`], [`wide_attribute`]: the parts that blocks are made of.

pub(crate) mod apart;
pub(crate) mod at;
pub(crate) mod block;
pub(crate) mod by_key;
pub(crate) mod chains;
pub(crate) mod chunk;
mod combine;
pub(crate) mod conflict;
mod distant;
pub(crate) mod encoded;
pub(crate) mod entries;
pub(crate) mod grouped;
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
