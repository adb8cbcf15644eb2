//! A set of the functions of an object that have rows already.

use alloc::vec::Vec;

use crate::format::Key;

/// A set of keys. Lookups are fast if they come in the order of insertion, as they nearly always do.
#[derive(Clone, Default, Debug)]
pub(crate) struct KeySet {
    keys: Vec<u64>,
    is_sorted: bool,
    /// The index of the key that the next lookup probably asks for.
    next: usize,
}

impl KeySet {
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        (self.is_sorted, self.next) = (true, 0);
    }

    pub(crate) fn reserve(&mut self, keys: usize) {
        self.keys.reserve(keys);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn insert(&mut self, key: Key) {
        self.is_sorted &= self.keys.last().is_none_or(|&last| last <= key.0);
        self.keys.push(key.0);
    }

    /// Appends the keys of another set.
    pub(crate) fn append(&mut self, others: Self) {
        let follows = match (self.keys.last(), others.keys.first()) {
            (Some(last), Some(first)) => last <= first,
            _ => true,
        };
        self.is_sorted &= others.is_sorted && follows;
        self.keys.extend(others.keys);
    }

    pub(crate) fn contains(&mut self, key: Key) -> bool {
        if self.keys.get(self.next) == Some(&key.0) {
            self.next += 1;
            return true;
        }
        if !self.is_sorted {
            self.keys.sort_unstable();
            self.is_sorted = true;
        }
        let found = self.keys.binary_search(&key.0);
        if let Ok(at) = found {
            self.next = at + 1;
        }
        found.is_ok()
    }
}
