//! Whether two answers are the same answer.

use cfipack_format::{Arch, Cfa, Register, Row, Rule};

use crate::cfi::{Answer, Flags};
use crate::table::TableAnswer;

/// How a table's answer for a PC relates to what it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Equal,
    Different,
    /// The table has no row where one is due.
    Missing,
}

/// Holds what a table says of a PC against what the CFI says. `cfi` is not [`Answer::Plt`].
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

/// Holds two tables' answers against each other.
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

/// The key matters only where something is signed, "signal frame" only where both sides can say it.
#[inline]
fn same_flags(a: Flags, b: Flags, row: &Row) -> bool {
    !a.signal_differs(b) && (!row.signed || a.key_b == b.key_b)
}

/// Whether two rows come to the same.
#[inline]
pub(crate) fn same_row(a: &Row, b: &Row, arch: Arch) -> bool {
    a.unwinds_as(b) || canonical(a, arch).unwinds_as(&canonical(b, arch))
}

/// The row with rules that come to the same said in the same way.
#[cold]
fn canonical(row: &Row, arch: Arch) -> Row {
    Row {
        return_address: canonical_rule(row.return_address, row.cfa, arch.return_address()),
        frame_pointer: canonical_rule(row.frame_pointer, row.cfa, arch.frame_pointer()),
        ..*row
    }
}

fn canonical_rule(rule: Rule, cfa: Cfa, own: Register) -> Rule {
    let rule = match (rule, cfa) {
        // With the CFA = r + c: at r + o is at CFA + (o - c), and CFA + o is r + (c + o).
        (Rule::Memory { register, offset }, Cfa::Register { register: base, offset: cfa })
            if register == base =>
        {
            Rule::Cfa(offset.wrapping_sub(cfa))
        }
        (Rule::ValCfa(offset), Cfa::Register { register, offset: cfa }) => {
            Rule::Register { register, offset: offset.wrapping_add(cfa) }
        }
        (rule, _) => rule,
    };
    if rule == (Rule::Register { register: own, offset: 0 }) { Rule::SameValue } else { rule }
}
