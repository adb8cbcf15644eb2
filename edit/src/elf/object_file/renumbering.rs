//! Renumbers the entries of a table after some are removed and others are inserted.

use cfipack_format::widen::ToUsize;

/// The new numbers of a table's entries.
#[derive(Clone, Default, Debug)]
pub(super) struct Renumbering {
    /// The old numbers of the removed entries, in ascending order.
    pub(super) removed: Vec<u32>,
    /// The old number before which new entries are inserted.
    pub(super) inserted_at: u32,
    /// The number of inserted entries.
    pub(super) inserted: u32,
}

impl Renumbering {
    /// Returns the new number of an entry, or `None` if it is removed.
    pub(super) fn number(&self, old: u32) -> Option<u32> {
        let before = self.removed.partition_point(|&removed| removed < old);
        if self.removed.get(before) == Some(&old) {
            return None;
        }
        let inserted = if old < self.inserted_at { 0 } else { self.inserted };
        (old - before as u32).checked_add(inserted)
    }

    /// Returns the number of the first inserted entry.
    pub(super) fn first_inserted(&self) -> u32 {
        let before = self.removed.partition_point(|&removed| removed < self.inserted_at);
        self.inserted_at - before as u32
    }

    /// Returns whether every entry of a table of `len` keeps its number.
    pub(super) fn is_identity(&self, len: usize) -> bool {
        let removed = self.removed.first().is_none_or(|&removed| removed.to_usize() >= len);
        removed && (self.inserted == 0 || self.inserted_at.to_usize() >= len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_removed_and_inserted_at_once() {
        let renumbering = Renumbering { removed: vec![2, 5], inserted_at: 4, inserted: 3 };
        let new: Vec<_> = (0..8).map(|old| renumbering.number(old)).collect();
        assert_eq!(new, [Some(0), Some(1), None, Some(2), Some(6), None, Some(7), Some(8)]);
        assert_eq!(renumbering.first_inserted(), 3);
    }
}
