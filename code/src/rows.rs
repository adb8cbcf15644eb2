//! The rows that are compared with a function's code.

use cfipack_format::{Arch, Register, Row, Rule};

/// The rows of a function, in ascending order of offset. You fill this list with rows from CFI or from a table, and
/// pass it to a [`Judge`](crate::Judge).
///
/// Unlike a plain list of [`Row`], this list has the rules of all registers. You can [`clear`](Self::clear) it to reuse
/// its memory.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    /// For each row the end of its rules in `rules`.
    ends: Vec<usize>,
    rules: Vec<(Register, Rule)>,
    /// Whether signed return addresses are signed with key B, if this is known.
    pub(crate) key_b: Option<bool>,
}

/// A row with the rules of all registers.
#[derive(Clone, Copy, Debug)]
pub struct FullRow<'r> {
    /// The row: its start, the CFA, the return address and the frame pointer.
    pub row: Row,
    /// The rules of all other registers, ascending by register. A register without a rule keeps its value.
    pub saved: &'r [(Register, Rule)],
}

impl FullRow<'_> {
    /// Returns the rule of any register.
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

    /// Returns whether the row has a rule for the stack pointer. Then the CFA need not be the caller's stack pointer, as
    /// in `longjmp`, where it is the address of the saved registers.
    pub(crate) fn moves_stack(&self, arch: Arch) -> bool {
        self.rule(arch, arch.stack_pointer()) != Rule::SameValue
    }

    /// Iterates over all rules that are not [`Rule::SameValue`]: the return address, the frame pointer, then the
    /// others.
    pub fn rules(&self, arch: Arch) -> impl Iterator<Item = (Register, Rule)> {
        let named = [
            (arch.return_address(), self.row.return_address),
            (arch.frame_pointer(), self.row.frame_pointer),
        ];
        named.into_iter().chain(self.saved.iter().copied()).filter(|(_, rule)| *rule != Rule::SameValue)
    }
}

impl Rows {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.ends.clear();
        self.rules.clear();
        self.key_b = None;
    }

    /// Sets whether the return addresses that rows have signed are signed with key B of AArch64, or else with key A.
    pub fn set_key_b(&mut self, key_b: bool) {
        self.key_b = Some(key_b);
    }

    /// Adds a row. It must start after the rows before it. Pass in `saved` the rules of registers other than the
    /// return address and the frame pointer, ascending by register. Omit registers that keep their value.
    pub fn push(&mut self, row: Row, saved: &[(Register, Rule)]) {
        self.rules.extend_from_slice(saved);
        self.rows.push(row);
        self.ends.push(self.rules.len());
    }

    fn rules_of(&self, index: usize) -> &[(Register, Rule)] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rules[start..self.ends[index]]
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the row at an index.
    pub fn get(&self, index: usize) -> Option<FullRow<'_>> {
        Some(FullRow { row: *self.rows.get(index)?, saved: self.rules_of(index) })
    }

    /// Returns the last row.
    pub fn last(&self) -> Option<FullRow<'_>> {
        self.get(self.rows.len().checked_sub(1)?)
    }

    /// Returns the row at an index, so that you can change it.
    pub fn row_mut(&mut self, index: usize) -> Option<&mut Row> {
        self.rows.get_mut(index)
    }

    /// Returns the rules in `saved` of the row at an index, so that you can change them.
    pub fn saved_mut(&mut self, index: usize) -> &mut [(Register, Rule)] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let end = self.ends.get(index).copied().unwrap_or(start);
        &mut self.rules[start..end]
    }

    /// Iterates over the rows in order.
    pub fn iter(&self) -> impl Iterator<Item = FullRow<'_>> + Clone {
        (0..self.rows.len()).filter_map(|index| self.get(index))
    }

    /// Returns the index of the row that applies at an offset from the function's start, in bytes.
    pub fn index_at(&self, offset: u32) -> Option<usize> {
        self.rows.partition_point(|row| row.start.0 <= offset).checked_sub(1)
    }
}
