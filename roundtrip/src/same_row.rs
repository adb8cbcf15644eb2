//! Compares two rows by meaning. The rows may come from a table and the CFI, or from two tables, in either format.

use cfipack_format::{Arch, Cfa, Register, Row, Rule};

/// Returns whether two rows unwind alike. Their starts do not matter. [`verify`](crate::verify) compares rows this way.
#[inline]
pub fn same_row(a: &Row, b: &Row, arch: Arch) -> bool {
    a.unwinds_as(b) || canonical(a, arch).unwinds_as(&canonical(b, arch))
}

/// Returns the row with each rule in a standard form, so that two rules with the same meaning become equal.
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
        // If the CFA is r + c, then "at r + o" means "at CFA + (o - c)", and "CFA + o" means "r + (c + o)".
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
