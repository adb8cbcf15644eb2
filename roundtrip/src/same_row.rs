//! Equality of two rows by meaning: of a table and the CFI, or of two tables, in either format.

use cfipack_format::{Arch, Cfa, Register, Row, Rule};

/// Returns whether two rows unwind alike, whatever their starts: as rows are compared by [`verify`](crate::verify).
#[inline]
pub fn same_row(a: &Row, b: &Row, arch: Arch) -> bool {
    a.unwinds_as(b) || canonical(a, arch).unwinds_as(&canonical(b, arch))
}

/// The row with each of its rules in one of the forms that it can have.
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
