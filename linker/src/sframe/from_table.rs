//! Pushes the functions of an object's tables.
//!
//! A table is checked as a whole before any function is taken. Then the live functions are added. If the table has
//! the output's version, the output borrows the FREs. Otherwise the rows are decoded and encoded again.

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use cfipack_format::widen::ToUsize;

use super::from_cfi::note_signal_frames;
use super::key_set::KeySet;
use super::table::{Head, RowBytes, Table};
use super::{Contribution, Field, Live, Merger, Note, Object, Prefer, SkipReason};
use crate::decoder::sframe::{self as decoder, Error, TableError};
use crate::encoder::sframe::{Layout, SharedRows};
use crate::format::sframe::{MAX_SHARED_FRES, Version};
use crate::format::{Address, Key, Reason, SectionOffset, Unsupported};

mod rows;

use rows::{copy, reencode};

/// Memory that is reused from object to object.
#[derive(Clone, Default, Debug)]
pub(crate) struct Scratch {
    /// Functions of the object that have rows already.
    pub(crate) covered: KeySet,
    /// Signal frames, if the table's version cannot represent them and the output's version can.
    pub(crate) signal_frames: KeySet,
    /// True if `signal_frames` has been filled for this object.
    pub(crate) has_signal_frames: bool,
    /// Functions of the table that have no rows, or only rows that the output cannot represent.
    pub(crate) rowless: Vec<Rowless>,
    /// The result of checking the current table.
    pub(crate) checked: Checked,
    /// The distinct rows of a table, sorted, if its functions share rows.
    shared: Vec<Shared>,
}

/// The result of checking a table: the rows of its functions.
#[derive(Clone, Default, Debug)]
pub(crate) struct Checked {
    /// The place of each function's rows, by index.
    rows: Vec<RowBytes>,
    /// Functions that have a malformed row: the index of the function and the start of the row.
    malformed: Vec<(usize, u32)>,
}

/// A function that has no rows in its table, or rows that the output cannot represent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rowless {
    pub(crate) unsupported: Unsupported,
    pub(crate) size: u32,
    /// True if CFI describes the function too.
    pub(crate) has_cfi: bool,
}

/// Rows that several functions of a table may share.
#[derive(Clone, Copy, Debug)]
struct Shared {
    rows: RowBytes,
    /// Before version 3: the fields of the FDE, besides the place of the rows, that determine the rows.
    head: (u8, u8),
    /// The rows in the output, once they have been pushed.
    pushed: Option<PushedRows>,
}

/// Rows that have been pushed to the output.
#[derive(Clone, Copy, Debug)]
struct PushedRows {
    rows: SharedRows,
    /// The start of the last row, if the rows were encoded again; 0 for copied rows.
    last: u32,
}

impl Scratch {
    pub(crate) fn clear(&mut self) {
        self.covered.clear();
        self.signal_frames.clear();
        self.has_signal_frames = false;
        self.rowless.clear();
    }

    /// Returns whether functions of the current table share rows. Shared rows are pushed with the first function that
    /// uses them.
    pub(crate) fn has_shared_rows(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Returns the slot for the pushed rows, if functions of the table share rows at this place.
    fn shared(&mut self, version: Version, head: &Head, rows: RowBytes) -> Option<&mut Option<PushedRows>> {
        let key = (rows, head.beside_rows(version));
        let at = self.shared.binary_search_by_key(&key, |shared| (shared.rows, shared.head)).ok()?;
        Some(&mut self.shared[at].pushed)
    }
}

impl Checked {
    /// The number of functions.
    pub(crate) fn functions(&self) -> usize {
        self.rows.len()
    }

    /// Returns the reason why the rows of a function cannot be used, or `None` if they can. For example, gas keeps
    /// entries without rows for functions that it cannot represent.
    fn unusable(&self, index: usize, head: &Head, key: Key, is_small: bool) -> Option<Unsupported> {
        if is_small && head.num_fres == 0 {
            return Some(Unsupported::function(key, Reason::RowsMissing));
        }
        if self.malformed.is_empty() {
            return None;
        }
        let found = self.malformed.binary_search_by_key(&index, |malformed| malformed.0).ok()?;
        let offset = self.malformed[found].1.into();
        Some(Unsupported { function: key, offset, reason: Reason::RowMalformed })
    }
}

/// Adds the functions of an object's tables that have no rows yet.
pub(crate) fn push_tables<'a>(
    merger: &mut Merger<'a>,
    object: &Object<'a>,
    live: &mut impl FnMut(Field) -> Option<Live>,
    report: &mut dyn FnMut(Note),
    sum: &mut Contribution,
) {
    for_each_table(merger, object, report, sum, |merger, table, has_cfi, sum| {
        note_signal_frames(merger, object, table.version(), live);
        let checked = mem::take(&mut merger.scratch.checked);
        push_functions(merger, table, &checked, 0..checked.functions(), has_cfi, live, sum);
        merger.scratch.checked = checked;
    });
}

/// Calls `push` with each usable table of an object, and with whether CFI of the object follows.
pub(crate) fn for_each_table<'a>(
    merger: &mut Merger<'a>,
    object: &Object<'a>,
    report: &mut dyn FnMut(Note),
    sum: &mut Contribution,
    mut push: impl FnMut(&mut Merger<'a>, &Table<'a>, bool, &mut Contribution),
) {
    let Some(bytes) = object.sframe else { return };
    for table in decoder::Section::concatenated(bytes, Address(0)) {
        let (at, checked) = match table {
            Ok(section) => {
                let at = SectionOffset(section.address().0.to_usize());
                (at, check(merger, Table::new(section, &bytes[at.0..], at)))
            }
            Err(TableError { table, error }) => (table, Err(SkipReason::Malformed(error))),
        };
        match checked {
            Ok(table) => {
                let has_cfi = object.eh_frame.is_some_and(|bytes| !bytes.is_empty());
                push(merger, &table, has_cfi, sum);
            }
            Err(reason) => {
                sum.skipped += 1;
                report(Note::Skipped { table: at, reason });
                return;
            }
        }
    }
}

/// Checks a table, and stores the places of its rows in the scratch memory.
fn check<'a>(merger: &mut Merger<'a>, table: Table<'a>) -> Result<Table<'a>, SkipReason> {
    let section = &table.section;
    if section.arch() != merger.arch {
        return Err(SkipReason::Architecture(section.arch()));
    }
    let Scratch { checked: Checked { rows, malformed }, shared, .. } = &mut merger.scratch;
    rows.clear();
    // The section has bytes for all of these functions, so the memory stays bounded.
    rows.reserve_exact(section.num_functions());
    malformed.clear();
    shared.clear();
    let (mut end, mut num_fres, mut is_shared) = (0, 0, false);
    for index in 0..section.num_functions() {
        let found = merger.fre_lens.check(&table, index).map_err(SkipReason::Malformed)?;
        num_fres += u64::from(found.num_fres);
        table.check_num_fres(index, num_fres).map_err(SkipReason::Malformed)?;
        malformed.extend(found.malformed.map(|start| (index, start)));
        is_shared |= found.rows.start < end;
        end = found.rows.start + found.rows.len;
        rows.push(found.rows);
    }
    if num_fres != u64::from(section.header().num_fres) {
        let error = Error::NumFres { value: section.header().num_fres, sum: num_fres };
        return Err(SkipReason::Malformed(error));
    }
    if is_shared {
        find_shared_rows(&table, rows, shared)?;
    }
    Ok(table)
}

/// Finds the distinct rows of a table whose functions share rows. Refuses rows that overlap: copies of overlapping
/// rows would need many more bytes than the table has.
fn find_shared_rows(
    table: &Table<'_>,
    rows: &[RowBytes],
    shared: &mut Vec<Shared>,
) -> Result<(), SkipReason> {
    for (index, &rows) in rows.iter().enumerate() {
        if rows.len == 0 {
            continue;
        }
        let Some(head) = table.head(index) else { continue };
        shared.push(Shared { rows, head: head.beside_rows(table.version()), pushed: None });
    }
    shared.sort_unstable_by_key(|shared| (shared.rows, shared.head));
    for pair in shared.windows(2) {
        let is_same = (pair[0].rows, pair[0].head) == (pair[1].rows, pair[1].head);
        if is_same && pair[1].rows.len.to_usize() > MAX_SHARED_FRES {
            return Err(SkipReason::OverlappingRows(pair[1].rows.start));
        }
    }
    shared.dedup_by_key(|shared| (shared.rows, shared.head));
    for pair in shared.windows(2) {
        if pair[1].rows.start < pair[0].rows.start + pair[0].rows.len {
            return Err(SkipReason::OverlappingRows(pair[1].rows.start));
        }
    }
    Ok(())
}

/// Adds the functions of a checked table in a range of indices. `has_cfi` is true if the object's CFI
/// follows, because the CFI then needs to know which functions have rows.
pub(crate) fn push_functions<'a>(
    merger: &mut Merger<'a>,
    table: &Table<'a>,
    checked: &Checked,
    indices: Range<usize>,
    has_cfi: bool,
    live: &mut impl FnMut(Field) -> Option<Live>,
    sum: &mut Contribution,
) {
    let options = merger.options;
    let is_small = options.table.layout == Layout::Small;
    let rows = &checked.rows[indices.clone()];
    let notes_covered = has_cfi && options.prefer == Prefer::Table;
    if notes_covered {
        merger.scratch.covered.reserve(rows.len());
    }
    let can_copy = table.version() == options.table.version && table.section.header().fixed_fp_offset == 0;
    for (index, &rows) in indices.zip(rows) {
        let Some(live) = live(table.start_field(index)) else {
            sum.dead += 1;
            continue;
        };
        if options.prefer == Prefer::Cfi && merger.scratch.covered.contains(live.key) {
            continue;
        }
        let can_lack_signal =
            !table.version().has_signal_frames() && !merger.scratch.signal_frames.is_empty();
        if can_lack_signal && merger.scratch.signal_frames.contains(live.key) {
            continue;
        }
        // `check` has read all functions.
        let Some(head) = table.head(index) else { continue };
        let size = live.extent.map_or(head.size, |extent| extent.min(head.size));
        if is_small && size == 0 {
            continue;
        }
        let is_copied = can_copy && size == head.size && (options.table.flex || !head.is_flex());
        let pushed = match checked.unusable(index, &head, live.key, is_small) {
            Some(unsupported) => Err(unsupported),
            None if is_copied => copy(merger, table, &head, live.key, rows),
            None => reencode(merger, table, index, live.key, size, rows),
        };
        match pushed {
            Ok(()) if is_copied => sum.copied += 1,
            Ok(()) => sum.reencoded += 1,
            Err(unsupported) => {
                merger.scratch.rowless.push(Rowless { unsupported, size, has_cfi: false });
                continue;
            }
        }
        if notes_covered {
            merger.scratch.covered.insert(live.key);
        }
    }
}
