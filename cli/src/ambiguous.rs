//! Functions of a table that start at one address and do not say the same: a lookup finds one of them, and
//! nobody can tell which of them runs there.

use cfipack_decoder::sframe::{Error, Function, Section};
use cfipack_format::Row;

/// How many functions there are that share their start with one that says something else.
pub fn count(table: &Section<'_>) -> u64 {
    let with_code = table.functions().flatten().filter(|function| function.size() != 0);
    let mut starts: Vec<_> = with_code.map(|function| (function.start(), function.index())).collect();
    starts.sort_unstable();
    let groups = starts.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1);
    let functions = |group: &[(_, usize)]| -> Vec<_> {
        group.iter().filter_map(|&(_, index)| table.function(index).ok()).collect()
    };
    let disputed =
        groups.map(functions).filter(|group| !group.iter().all(|other| say_the_same(&group[0], other)));
    disputed.map(|group| group.len() as u64).sum()
}

/// Whether two functions with one start say the same of the PCs that both have.
fn say_the_same(a: &Function<'_>, b: &Function<'_>) -> bool {
    let size = a.size().min(b.size());
    let flags = |function: &Function<'_>| {
        (function.is_pc_mask(), function.is_signal_frame(), function.has_pauth_key_b())
    };
    let is_shared = |row: &Result<Row, Error>| row.as_ref().is_ok_and(|row| row.start.0 < size);
    flags(a) == flags(b) && a.rows().take_while(is_shared).eq(b.rows().take_while(is_shared))
}
