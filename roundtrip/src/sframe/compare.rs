//! Compares two answers for the same PC: of a table and the CFI, or of two tables.

use cfipack_format::{Arch, Row};

use super::table::TableAnswer;
use crate::cfi::{Answer, Flags};
use crate::same_row::same_row;

/// The result of comparing a table's answer with the CFI's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Equal,
    Different,
    /// The table has no row although the CFI has a row.
    Missing,
}

/// Compares a table's answer for a PC with the CFI's. `cfi` is not [`Answer::Plt`].
#[inline]
pub(crate) fn against_cfi(cfi: &Answer, flags: Flags, table: &TableAnswer, arch: Arch) -> Outcome {
    match (cfi, table) {
        (Answer::Nothing, TableAnswer::Nothing) => Outcome::Equal,
        (_, TableAnswer::Nothing) => Outcome::Missing,
        (Answer::Row(row), TableAnswer::Row(in_table, flags_in_table))
            if same_row(row, in_table, arch) && same_flags(flags, *flags_in_table, row) =>
        {
            Outcome::Equal
        }
        _ => Outcome::Different,
    }
}

/// Compares the answers of two tables.
#[inline]
pub(crate) fn same_answer(a: &TableAnswer, b: &TableAnswer, arch: Arch) -> bool {
    match (a, b) {
        (TableAnswer::Nothing, TableAnswer::Nothing) => true,
        (TableAnswer::Row(a, a_flags), TableAnswer::Row(b, b_flags)) => {
            same_row(a, b, arch) && same_flags(*a_flags, *b_flags, a)
        }
        _ => false,
    }
}

/// Compares flags. The key matters only if the row is signed, and signal frames only if both sides can represent them.
#[inline]
pub(crate) fn same_flags(a: Flags, b: Flags, row: &Row) -> bool {
    !a.signal_differs(b) && (!row.signed || a.key_b == b.key_b)
}
