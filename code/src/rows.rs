//! The rows of a function that are judged.

use cfipack_format::{Arch, Register, Row, Rule};

/// The rows of a function, ascending, with the rules of all registers: as the caller has them from CFI or a table.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    /// For each row the end of its rules in `rules`.
    ends: Vec<usize>,
    rules: Vec<(Register, Rule)>,
}

/// A row with the rules of all registers.
#[derive(Clone, Copy, Debug)]
pub struct FullRow<'r> {
    /// The row.
    pub row: Row,
    /// The rules of registers beside the return address and the frame pointer that do not keep their value, ascending.
    pub saved: &'r [(Register, Rule)],
}

impl FullRow<'_> {
    /// The rule of a register.
    pub fn rule(&self, arch: Arch, register: Register) -> Rule {
        if register == arch.frame_pointer() {
            return self.row.frame_pointer;
        }
        if register == arch.return_address() {
            return self.row.return_address;
        }
        let found = self.saved.iter().find(|(saved, _)| *saved == register);
        found.map_or(Rule::SameValue, |(_, rule)| *rule)
    }

    /// The return address, the frame pointer and the others, without those that have the same value.
    pub fn rules(&self, arch: Arch) -> impl Iterator<Item = (Register, Rule)> {
        let named = [
            (arch.return_address(), self.row.return_address),
            (arch.frame_pointer(), self.row.frame_pointer),
        ];
        named.into_iter().chain(self.saved.iter().copied()).filter(|(_, rule)| *rule != Rule::SameValue)
    }
}

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.ends.clear();
        self.rules.clear();
    }

    /// Adds a row that starts after the others; `saved` are the rules of registers beside the return address and the frame
    /// pointer that do not keep their value, ascending.
    pub fn push(&mut self, row: Row, saved: &[(Register, Rule)]) {
        self.rules.extend_from_slice(saved);
        self.rows.push(row);
        self.ends.push(self.rules.len());
    }

    fn rules_of(&self, index: usize) -> &[(Register, Rule)] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rules[start..self.ends[index]]
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A row by its index.
    pub fn get(&self, index: usize) -> Option<FullRow<'_>> {
        Some(FullRow { row: *self.rows.get(index)?, saved: self.rules_of(index) })
    }

    /// The last row.
    pub fn last(&self) -> Option<FullRow<'_>> {
        self.get(self.rows.len().checked_sub(1)?)
    }

    /// A row by its index, to be changed.
    pub fn row_mut(&mut self, index: usize) -> Option<&mut Row> {
        self.rows.get_mut(index)
    }

    /// The rules of a row by its index, to be changed.
    pub fn saved_mut(&mut self, index: usize) -> &mut [(Register, Rule)] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let end = self.ends.get(index).copied().unwrap_or(start);
        &mut self.rules[start..end]
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = FullRow<'_>> {
        (0..self.rows.len()).filter_map(|index| self.get(index))
    }

    /// The index of the row in force at an offset from the function's start.
    pub fn index_at(&self, offset: u32) -> Option<usize> {
        self.rows.partition_point(|row| row.start.0 <= offset).checked_sub(1)
    }
}
