//! What is asked for an object.

use std::collections::BTreeSet;

use cfipack_format::Address;

/// What the user wants.
#[derive(Clone, Copy, Debug)]
pub struct Wishes<'w> {
    /// The names of the personalities that rows may have. If the list is empty, rows may have any personality.
    pub personalities: &'w [String],
    /// True if rows that contradict the CFI are replaced.
    pub repair: bool,
}

/// What is known of an object before it is planned.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// What the user wants.
    pub wishes: Wishes<'r>,
    /// The number of the object in its file.
    pub object: u64,
    /// The functions and rows that are to be replaced, because they contradict the CFI or break a rule.
    pub faulty: &'r BTreeSet<Address>,
    /// The functions that must not be divided into several rows.
    pub undivided: &'r BTreeSet<Address>,
}
