//! Finds out whether CFI and table agree about a whole function, as they do for nearly all functions. Counts nothing.

use std::ops::Range;

use cfipack_format::{Arch, Row};

use super::decoded::Walk;
use crate::cfi::{Answer, Evaluator, Flags, Function};
use crate::same_row::same_row;
use crate::sframe::compare::same_flags;

/// The end of the rows of a function for which CFI and table agree.
pub(super) struct Agreed<'t> {
    /// The start of the last row, of the CFI or the table, in bytes from the function's start.
    pub last: u64,
    /// The bytes of the table after the FREs.
    pub rest: &'t [u8],
}

/// Compares a function of the CFI with the function of the table that has exactly the same PCs. `rows` and `flags` come
/// from the table. Returns `None` unless both agree at every PC and all rows of the table have been compared.
pub(super) fn agree<'t>(
    function: &Function,
    mut rows: Walk<'_, 't>,
    flags: Flags,
    arch: Arch,
    evaluator: &mut Evaluator<'_>,
) -> Option<Agreed<'t>> {
    // The end of the PCs that agree.
    let mut agreed = Some(function.start.0);
    let last = evaluator.evaluate_to_last_row(function, |pcs, answer, of_cfi| {
        let offsets = pcs.start - function.start.0..pcs.end - function.start.0;
        let agrees = agreed == Some(pcs.start)
            && pcs_agree(offsets, answer, &mut rows, arch, |row| same_flags(of_cfi, flags, row)).is_some();
        agreed = agrees.then_some(pcs.end);
    });
    let last = last.ok()?.0.wrapping_sub(function.start.0);
    if agreed != Some(function.end.0) {
        return None;
    }
    let (last_in_table, rest) = rows.end()?;
    Some(Agreed { last: last.max(last_in_table), rest })
}

/// Compares the table's rows with the CFI's answer for a range of PCs. Each call continues where the call before it
/// ended. Returns `None` if they differ.
#[inline]
fn pcs_agree(
    offsets: Range<u64>,
    answer: &Answer,
    rows: &mut Walk<'_, '_>,
    arch: Arch,
    has_flags: impl Fn(&Row) -> bool,
) -> Option<()> {
    let Answer::Row(row) = answer else { return None };
    while rows.next() <= offsets.start {
        rows.step()?;
    }
    loop {
        if !same_row(row, rows.row(), arch) || !has_flags(row) {
            return None;
        }
        if rows.next() >= offsets.end {
            return Some(());
        }
        rows.step()?;
    }
}
