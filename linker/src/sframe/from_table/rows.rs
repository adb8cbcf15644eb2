//! Pushes the rows of a table's function: borrowed by the output, or encoded again.

use cfipack_format::widen::ToUsize;

use super::PushedRows;
use crate::encoder::sframe::{EncodedRows, Layout, SharedRows, TableFunction, TableRows};
use crate::format::sframe::FdeInfo;
use crate::format::{Key, Reason, Row, Unsupported};
use crate::sframe::Merger;
use crate::sframe::table::{Head, RowBytes, Table};

/// Adds a function with its FREs unchanged.
#[inline]
pub(super) fn copy<'a>(
    merger: &mut Merger<'a>,
    table: &Table<'a>,
    head: &Head,
    key: Key,
    rows: RowBytes,
) -> Result<(), Unsupported> {
    let function = TableFunction::new(key, head.size).with_info(head.info, head.rep_size);
    if merger.scratch.shared.is_empty() {
        push_rows(merger, table, &function, head, rows)?;
        return Ok(());
    }
    let shared = merger.scratch.shared(table.version(), head, rows);
    if let Some(Some(pushed)) = shared {
        merger.builder.push_table(&function, pushed.rows)?;
        return Ok(());
    }
    let pushed = push_rows(merger, table, &function, head, rows)?;
    let shared = merger.scratch.shared(table.version(), head, rows);
    if let (Some(shared), Some(rows)) = (shared, pushed) {
        *shared = Some(PushedRows { rows, last: 0 });
    }
    Ok(())
}

/// Adds a function with the rows at a place of its table. The output borrows the rows, or copies them if the table is
/// small.
#[inline]
fn push_rows<'a>(
    merger: &mut Merger<'a>,
    table: &Table<'a>,
    function: &TableFunction,
    head: &Head,
    rows: RowBytes,
) -> Result<Option<SharedRows>, Unsupported> {
    // For each borrowed place, the output keeps a record of half this many bytes.
    const FEW: usize = 64;
    let (start, end) = (rows.start.to_usize(), (rows.start + rows.len).to_usize());
    let attribute = table.version().attribute_size();
    if table.fres.len() >= FEW && start >= attribute {
        let block = start - attribute..end;
        return merger.builder.push_lent(function, head.num_fres, table.fres, block).map(Some);
    }
    let encoded = EncodedRows::new(&table.fres[start..end], head.num_fres).with_info2(head.info2);
    merger.builder.push_table(function, encoded)
}

/// Decodes a function's rows and adds them, encoded again, up to `size` bytes.
pub(super) fn reencode(
    merger: &mut Merger<'_>,
    table: &Table<'_>,
    index: usize,
    key: Key,
    size: u32,
    rows: RowBytes,
) -> Result<(), Unsupported> {
    // `check` has read all functions.
    let (Some(Ok(function)), Some(head)) = (table.section.function(index), table.head(index)) else {
        return Err(Unsupported::function(key, Reason::RowMalformed));
    };
    let mut info = FdeInfo::empty().with_fre_type(function.fre_type());
    info.set(FdeInfo::PAUTH_KEY_B, function.has_pauth_key_b());
    info.set(FdeInfo::SIGNAL, function.is_signal_frame());
    info.set(FdeInfo::PC_MASK, function.is_pc_mask());
    // Version 1 has a mask instead of a size.
    let Ok(rep_size) = u8::try_from(function.rep_size()) else {
        return Err(Unsupported::function(key, Reason::Version));
    };
    let entry = TableFunction::new(key, size).with_info(info, rep_size);
    let is_cut = size != function.size() && !function.is_pc_mask();
    let shared = merger.scratch.shared(table.version(), &head, rows).filter(|_| !is_cut);
    // In layout `Small` rows end at the end of the function.
    let is_gnu = merger.options.table.layout == Layout::Gnu;
    let has_all = |last: u32| is_gnu || function.is_pc_mask() || last < size;
    if let Some(Some(pushed)) = shared
        && has_all(pushed.last)
    {
        merger.builder.push_table(&entry, pushed.rows)?;
        return Ok(());
    }
    let rows = function.rows().filter_map(Result::ok);
    let rows = rows.take_while(move |row: &Row| !is_cut || row.start.0 < size);
    let last = rows.clone().last().map_or(0, |row| row.start.0);
    let pushed = merger.builder.push_table(&entry, TableRows::Rows(rows))?;
    if let (Some(shared), Some(rows)) = (shared, pushed)
        && has_all(last)
    {
        *shared = Some(PushedRows { rows, last });
    }
    Ok(())
}
