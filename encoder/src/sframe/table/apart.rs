//! Finds functions that share PCs by sorting them.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use cfipack_format::Address;

use crate::sframe::table::chains::Chains;
use crate::sframe::table::entries::{Entry, Omitted};
use crate::sframe::table::order::Order;
use cfipack_format::pool::Pool;

/// Distances from this address are in the order of the addresses.
const MIDDLE: Address = Address(1 << 63);

/// Entries in the order of their starts. Entries with equal starts keep their order.
pub(crate) enum Sorted<'e> {
    /// The entries were sorted already.
    Already(&'e [Entry]),
    /// A sorted copy, as bytes.
    Copied(Vec<[u8; Entry::SIZE]>),
}

impl<'e> Sorted<'e> {
    /// Sorts entries, on the threads of a pool.
    pub(crate) fn new(entries: &'e [Entry], pool: &dyn Pool) -> Self {
        if entries.is_sorted_by_key(|entry| entry.start) {
            return Self::Already(entries);
        }
        // The copy is then written once.
        if pool.threads() == 1
            && let Some(chains) = Chains::new(entries.len(), |number| entries[number].start)
        {
            let mut bytes = Vec::with_capacity(entries.len());
            chains.merge(|number| entries[number].start, |number| bytes.push(entries[number].to_bytes()));
            return Self::Copied(bytes);
        }
        let order = Order::new(pool, entries, |number| entries[number].start, MIDDLE);
        let mut bytes = vec![[0; Entry::SIZE]; entries.len()];
        order.write(
            pool,
            &mut bytes,
            |entry, _| entry.to_bytes(),
            |bytes| Address(Entry::from_bytes(bytes).start).distance_from(MIDDLE),
            |_, _| (),
        );
        Self::Copied(bytes)
    }

    /// Returns the entries that have code. A function without code has no PC to share.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        let (entries, bytes) = match self {
            Self::Already(entries) => (*entries, &[][..]),
            Self::Copied(bytes) => (&[][..], &bytes[..]),
        };
        let all = entries.iter().copied().chain(bytes.iter().map(Entry::from_bytes));
        all.filter(|entry| entry.size != 0)
    }

    /// Returns whether no two functions share a PC. This includes omitted functions.
    pub(crate) fn are_apart(&self, omitted: &[Omitted]) -> bool {
        self.overlap(omitted).is_none()
    }

    /// Returns the start of a function that shares a PC with another function, or `None` if there is no such
    /// function. This includes omitted functions.
    pub(crate) fn overlap(&self, omitted: &[Omitted]) -> Option<u64> {
        let mut reached = 0;
        let overlap = self.entries().find(|entry| entry.start < mem::replace(&mut reached, entry.end()));
        overlap.map(|entry| entry.start).or_else(|| self.omitted_in_an_entry(omitted))
    }

    /// Returns the start of an omitted function that has a PC of an entry. No two entries share a PC.
    fn omitted_in_an_entry(&self, omitted: &[Omitted]) -> Option<u64> {
        // Functions without code have no PC, and hide no function before them.
        let omitted = omitted.iter().filter(|omitted| omitted.size != 0);
        let mut omitted: Vec<_> = omitted.map(|omitted| (omitted.start, omitted.end())).collect();
        omitted.sort_unstable();
        let mut entries = self.entries().peekable();
        for (start, end) in omitted {
            while entries.next_if(|entry| entry.end() <= start).is_some() {}
            if entries.peek().is_some_and(|entry| entry.start < end) {
                return Some(start);
            }
        }
        None
    }

    /// Returns the sorted copy of the entries, or `None` if the entries were sorted already.
    pub(crate) fn into_copy(self) -> Option<impl Iterator<Item = Entry> + use<>> {
        match self {
            Self::Already(_) => None,
            Self::Copied(bytes) => Some(bytes.into_iter().map(|bytes| Entry::from_bytes(&bytes))),
        }
    }
}
