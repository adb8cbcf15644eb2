//! The functions of an object's tables.
//!
//! A table is checked as a whole before any of its functions is taken. Then those that live are: their FREs are
//! copied where they are of the output's version, and decoded and encoded again otherwise.

use alloc::vec::Vec;

use super::key_set::KeySet;
use super::{Contribution, Field, Live, Merger, Note, Object, Prefer, SkipReason};
use crate::decoder::sframe::{Function, Section};
use crate::encoder::sframe::{EncodedRows, Layout, SharedRows, TableFunction};
use crate::format::sframe::{Attribute, FdeInfo, FdeType, MAX_FRES_PER_BYTE, Version};
use crate::format::{Address, Key, Reason, Row, SectionOffset, Unsupported};

/// Memory that one object after the other uses.
#[derive(Clone, Default, Debug)]
pub(crate) struct Scratch {
    /// Functions of the object that have their rows.
    pub(crate) covered: KeySet,
    /// Functions that are signal frames, which the table cannot represent and the output can.
    pub(crate) signal_frames: KeySet,
    /// Functions of the table that have no rows there that the output can have.
    pub(crate) rowless: Vec<Rowless>,
    /// Where the rows of each function of a table are.
    rows: Vec<RowBytes>,
    /// Functions of a table by index, of which a row that starts here means nothing.
    malformed: Vec<(usize, u32)>,
    /// The distinct rows of a table whose functions share some, in order.
    shared: Vec<Shared>,
}

/// A function that has no rows in its table, or such as the output cannot have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rowless {
    pub(crate) unsupported: Unsupported,
    pub(crate) size: u32,
    /// CFI has the function too.
    pub(crate) has_cfi: bool,
}

/// Where the FREs of a function are, from the start of the FRE sub-section, in version 3 without the attribute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RowBytes {
    start: u32,
    len: u32,
}

/// Rows that several functions of a table may have.
#[derive(Clone, Copy, Debug)]
struct Shared {
    rows: RowBytes,
    /// Before version 3, what the FDE has beside them.
    head: (u8, u8),
    /// Where they are in the output, if they are.
    pushed: Option<SharedRows>,
}

impl Scratch {
    pub(crate) fn clear(&mut self) {
        self.covered.clear();
        self.signal_frames.clear();
        self.rowless.clear();
    }

    /// The place for rows in the output that functions of the table share.
    fn shared(
        &mut self,
        table: &Checked<'_>,
        function: &Function<'_>,
        rows: RowBytes,
    ) -> Option<&mut Option<SharedRows>> {
        let key = (rows, head(table.section.version(), function));
        let at = self.shared.binary_search_by_key(&key, |shared| (shared.rows, shared.head)).ok()?;
        Some(&mut self.shared[at].pushed)
    }

    /// Why the rows of a function cannot be used, if so. gas keeps the entries of some functions that it cannot
    /// represent, without rows.
    fn unusable(&self, function: &Function<'_>, key: Key, is_small: bool) -> Option<Unsupported> {
        if is_small && function.num_fres() == 0 {
            return Some(Unsupported::function(key, Reason::RowsMissing));
        }
        let found = self.malformed.binary_search_by_key(&function.index(), |malformed| malformed.0).ok()?;
        let offset = self.malformed[found].1.into();
        Some(Unsupported { function: key, offset, reason: Reason::RowMalformed })
    }
}

/// Bytes of rows that functions may share: with more, a table of few bytes could have more rows than readers
/// accept.
const LONGEST_SHARED: u32 = (2 * MAX_FRES_PER_BYTE * Version::V3.fde_size()) as u32;

/// A table that has been checked.
struct Checked<'a> {
    section: Section<'a>,
    /// Where the table starts in its section.
    at: usize,
    /// The FRE sub-section.
    fres: &'a [u8],
}

/// Adds the functions of an object's tables that are not covered yet.
pub(crate) fn push_tables<'a>(
    merger: &mut Merger<'a>,
    object: &Object<'a>,
    live: &mut impl FnMut(Field) -> Option<Live>,
    report: &mut dyn FnMut(Note),
    sum: &mut Contribution,
) {
    let Some(bytes) = object.sframe else { return };
    let mut at = 0;
    while let Some(rest) = bytes.get(at..)
        && let Some(zeros) = rest.iter().position(|&byte| byte != 0)
    {
        // gas pads the section on s390x.
        at += zeros;
        let checked = check(merger, &bytes[at..], at);
        let table = SectionOffset(at);
        let (checked, len) = match checked {
            Ok(checked) => checked,
            Err(reason) => {
                sum.skipped += 1;
                report(Note::Skipped { table, reason });
                return;
            }
        };
        push_table(merger, &checked, live, sum);
        at += len;
    }
}

/// Checks the table that bytes start with, which lie `at` bytes from their section's start. Returns its length too.
fn check<'a>(
    merger: &mut Merger<'a>,
    bytes: &'a [u8],
    at: usize,
) -> Result<(Checked<'a>, usize), SkipReason> {
    let (section, rest) = Section::parse_first(bytes, Address(0)).map_err(SkipReason::Malformed)?;
    let len = bytes.len() - rest.len();
    let header = section.header();
    if section.arch() != merger.arch {
        return Err(SkipReason::Architecture(section.arch()));
    }
    let fres = &bytes[len - header.fre_len as usize..len];
    let attribute = if section.version() == Version::V3 { Attribute::SIZE as u32 } else { 0 };
    let Scratch { rows, malformed, shared, .. } = &mut merger.scratch;
    (rows.clear(), malformed.clear(), shared.clear());
    let (mut end, mut num_fres) = (0, 0);
    let mut is_shared = false;
    for function in section.functions() {
        let function = function.map_err(SkipReason::Malformed)?;
        let start = function.fde().fre_off.saturating_add(attribute);
        let its_fres = fres.get(start as usize..).unwrap_or_default();
        let checked = merger.fre_lens.check(&function, its_fres, merger.arch, section.version());
        let found = checked.map_err(SkipReason::Malformed)?;
        malformed.extend(found.malformed.map(|start| (function.index(), start)));
        is_shared |= function.fde().fre_off < end;
        // Both lie within the sub-section, whose length has 32 bits.
        end = start + found.len;
        num_fres += u64::from(function.num_fres());
        rows.push(RowBytes { start, len: found.len });
    }
    if num_fres != u64::from(header.num_fres) {
        let error = crate::decoder::sframe::Error::NumFres { value: header.num_fres, sum: num_fres };
        return Err(SkipReason::Malformed(error));
    }
    if is_shared {
        distinct(&section, rows, shared)?;
    }
    Ok((Checked { section, at, fres }, len))
}

/// What an FDE has beside its rows; in version 3 it is the attribute, which is part of them.
fn head(version: Version, function: &Function<'_>) -> (u8, u8) {
    match version {
        Version::V3 => (0, 0),
        _ => (function.fde().info.bits(), function.fde().rep_size),
    }
}

/// Finds the distinct rows of functions that share some. Copies of rows that overlap would be many more bytes than
/// the table has.
fn distinct(section: &Section<'_>, rows: &[RowBytes], shared: &mut Vec<Shared>) -> Result<(), SkipReason> {
    let heads = (0..).map_while(|index| section.function(index).ok());
    let heads = heads.map(|function| head(section.version(), &function));
    let all = rows.iter().zip(heads).filter(|(rows, _)| rows.len != 0);
    shared.extend(all.map(|(&rows, head)| Shared { rows, head, pushed: None }));
    shared.sort_unstable_by_key(|shared| (shared.rows, shared.head));
    let is_long = |pair: &&[Shared]| {
        pair[1].rows.len > LONGEST_SHARED && (pair[0].rows, pair[0].head) == (pair[1].rows, pair[1].head)
    };
    if let Some(pair) = shared.windows(2).find(is_long) {
        return Err(SkipReason::OverlappingRows(pair[1].rows.start));
    }
    shared.dedup_by_key(|shared| (shared.rows, shared.head));
    let overlap = shared.windows(2).find(|pair| pair[1].rows.start < pair[0].rows.start + pair[0].rows.len);
    overlap.map_or(Ok(()), |pair| Err(SkipReason::OverlappingRows(pair[1].rows.start)))
}

fn push_table(
    merger: &mut Merger<'_>,
    table: &Checked<'_>,
    live: &mut impl FnMut(Field) -> Option<Live>,
    sum: &mut Contribution,
) {
    let options = merger.options;
    let is_small = options.table.layout == Layout::Small;
    let rows = core::mem::take(&mut merger.scratch.rows);
    let header = table.section.header();
    let can_copy = table.section.version() == options.table.version && header.fixed_fp_offset == 0;
    for (function, rows) in table.section.functions().zip(&rows) {
        // All have been read before.
        let Ok(function) = function else { continue };
        let field = table.at + table.section.fde_offset(function.index()).0;
        let Some(live) = live(Field::Sframe(SectionOffset(field))) else {
            sum.dead += 1;
            continue;
        };
        if options.prefer == Prefer::Cfi && merger.scratch.covered.contains(live.key) {
            continue;
        }
        if !merger.scratch.signal_frames.is_empty() && merger.scratch.signal_frames.contains(live.key) {
            continue;
        }
        let size = live.extent.map_or(function.size(), |extent| extent.min(function.size()));
        if is_small && size == 0 {
            continue;
        }
        if let Some(unsupported) = merger.scratch.unusable(&function, live.key, is_small) {
            merger.scratch.rowless.push(Rowless { unsupported, size, has_cfi: false });
            continue;
        }
        let is_flex = function.fde_type() == FdeType::Flex;
        let is_copied = can_copy && size == function.size() && (options.table.flex || !is_flex);
        let pushed = match is_copied {
            true => copy(merger, table, &function, live, *rows),
            false => reencode(merger, table, &function, live, size, *rows),
        };
        match pushed {
            Ok(()) if is_copied => sum.copied += 1,
            Ok(()) => sum.reencoded += 1,
            Err(unsupported) => {
                merger.scratch.rowless.push(Rowless { unsupported, size, has_cfi: false });
                continue;
            }
        }
        if options.prefer == Prefer::Table {
            merger.scratch.covered.insert(live.key);
        }
    }
    merger.scratch.rows = rows;
}

/// Adds a function with its FREs as they are.
fn copy(
    merger: &mut Merger<'_>,
    table: &Checked<'_>,
    function: &Function<'_>,
    live: Live,
    rows: RowBytes,
) -> Result<(), Unsupported> {
    let (from, to) = (rows.start as usize, (rows.start + rows.len) as usize);
    let (info, info2, rep_size) = match table.fres.get(..from).and_then(<[u8]>::last_chunk) {
        Some(attribute) if table.section.version() == Version::V3 => {
            let Attribute { info, info2, rep_size, .. } = Attribute::read(attribute, table.section.endian());
            (info, info2, rep_size)
        }
        _ => (function.fde().info, 0, function.fde().rep_size),
    };
    let entry = TableFunction::new(live.key, function.size()).with_info(info, rep_size);
    let shared = merger.scratch.shared(table, function, rows);
    if let Some(Some(pushed)) = shared {
        return merger.builder.push_shared(&entry, *pushed);
    }
    let encoded = EncodedRows::new(&table.fres[from..to], function.num_fres()).with_info2(info2);
    let pushed = merger.builder.push_encoded(&entry, encoded)?;
    if let Some(shared) = shared {
        *shared = Some(pushed);
    }
    Ok(())
}

/// Adds a function's rows, encoded again, up to `size` bytes.
fn reencode(
    merger: &mut Merger<'_>,
    table: &Checked<'_>,
    function: &Function<'_>,
    live: Live,
    size: u32,
    rows: RowBytes,
) -> Result<(), Unsupported> {
    let mut info = FdeInfo::empty().with_fre_type(function.fre_type());
    info.set(FdeInfo::PAUTH_KEY_B, function.has_pauth_key_b());
    info.set(FdeInfo::SIGNAL, function.is_signal_frame());
    info.set(FdeInfo::PC_MASK, function.is_pc_mask());
    // Version 1 has masks instead of a size.
    let rep_size = u8::try_from(function.rep_size());
    let rep_size = rep_size.map_err(|_| Unsupported::function(live.key, Reason::Version))?;
    let entry = TableFunction::new(live.key, size).with_info(info, rep_size);
    let is_cut = size != function.size() && !function.is_pc_mask();
    // In layout `Small` rows depend on the function's size, and equal ones are shared anyway.
    let can_share = !is_cut && merger.options.table.layout == Layout::Gnu;
    let shared = merger.scratch.shared(table, function, rows).filter(|_| can_share);
    if let Some(Some(pushed)) = shared {
        return merger.builder.push_shared(&entry, *pushed);
    }
    // All have been read before.
    let rows = function.rows().filter_map(Result::ok);
    let rows = rows.take_while(move |row: &Row| !is_cut || row.start.0 < size);
    let pushed = merger.builder.push_table_rows(&entry, rows)?;
    if let Some(shared) = shared {
        *shared = pushed;
    }
    Ok(())
}
