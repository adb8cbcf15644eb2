//! Rows of a file's old table for code that no CFI covers. A new table keeps them if the code proves them.

use std::collections::BTreeMap;
use std::ops::Range;

use cfipack_container::{CallFrameSection, File, Kind};
use cfipack_decoder::sframe::{Function, Section};
use cfipack_encoder::sframe::Builder;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Unsupported};
use cfipack_linker::linked;
use cfipack_linker::stubs::recognise;
use cfipack_lint::coverage::{Gaps, merged, of_tables};
use cfipack_lint::synthesized::{have_rows_of_code, range_of, without_cfi};
use serde::Serialize;

use crate::io::input;

/// Rows of the old table, in the new table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OldRows {
    /// The number of functions without CFI whose rows the new table has from the old table.
    pub kept_functions: u64,
    /// The size of these functions in bytes.
    pub kept_bytes: u64,
    /// The number of bytes of code, except for padding, for which the old table had rows and the new table has none.
    pub lost_bytes: u64,
}

/// The functions of a new table whose rows are from the file's old table.
#[derive(Default, Debug)]
pub struct Kept {
    /// The end of each function by its start.
    functions: BTreeMap<Address, Address>,
}

impl Kept {
    /// Adds the functions of the file's old table that no CFI covers to a new table, if the code [proves](proven) their
    /// rows. Without `by_code`, only functions of stubs are added.
    ///
    /// # Errors
    /// The code of the file cannot be read.
    pub fn push(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        by_code: bool,
        builder: &mut Builder<'_>,
    ) -> anyhow::Result<Self> {
        let mut kept = Self::default();
        with_old_tables(file, |tables| {
            for function in proven(file, sections, tables, by_code)? {
                // A function that this version or these options cannot represent is counted as lost.
                if linked::push(builder, &function).is_ok() {
                    let Range { start, end } = range_of(&function);
                    kept.functions.insert(start, end);
                }
            }
            Ok(())
        })?;
        Ok(kept)
    }

    /// Returns whether a kept function contains one of the PCs.
    pub fn overlaps(&self, pcs: &Range<Address>) -> bool {
        let before = self.functions.range(..pcs.end).next_back();
        before.is_some_and(|(_, end)| *end > pcs.start)
    }

    /// Removes a function that the new table cannot distinguish or reach. Returns false if the function is not kept.
    pub fn omit(&mut self, omitted: &Unsupported) -> bool {
        self.functions.remove(&omitted.function.address()).is_some()
    }

    /// Counts the rows of the file's old table in the tables `new`. Returns `None` if the file has no old table that can
    /// be read.
    ///
    /// # Errors
    /// The code of the file cannot be read.
    pub fn count(&self, file: &File<'_>, new: &[Section<'_>]) -> anyhow::Result<Option<OldRows>> {
        let sizes = self.functions.iter().map(|(start, end)| end.0 - start.0);
        let mut rows =
            OldRows { kept_functions: sizes.len().to_u64(), kept_bytes: sizes.sum(), lost_bytes: 0 };
        with_old_tables(file, |old| {
            if old.is_empty() {
                return Ok(None);
            }
            let [old, new] = [old, new].map(|tables| merged(of_tables(tables).flatten().collect()));
            // The gaps are only looked for if there are any, because this reads all of the code.
            if old.iter().map(|range| size(&inside(&new, range))).sum::<u64>() != size(&old) {
                Gaps::new(file, &new).for_each(|gap| {
                    let lost = if gap.is_padding { 0 } else { size(&inside(&old, &gap.addresses)) };
                    rows.lost_bytes += lost;
                })?;
            }
            Ok(Some(rows))
        })
    }
}

/// Calls `read` with the tables of a file before its change. Tables that cannot be read are left out.
fn with_old_tables<T>(
    file: &File<'_>,
    read: impl FnOnce(&[Section<'_>]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let sections = file.sframe_sections().unwrap_or_default();
    let tables: Vec<_> =
        sections.iter().filter_map(|section| input::relocated_tables(file, section).ok()).flatten().collect();
    read(&tables)
}

/// Returns the functions of tables that no CFI covers and whose rows the code proves, in ascending order. The code must
/// be stubs that a linker wrote. With `by_code`, other code is followed too.
///
/// # Errors
/// The sections or symbols of the file cannot be read.
pub fn proven<'t>(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    tables: &[Section<'t>],
    by_code: bool,
) -> anyhow::Result<Vec<Function<'t>>> {
    let functions = without_cfi(sections, tables);
    if functions.is_empty() {
        return Ok(functions);
    }
    let mut stubs = BTreeMap::new();
    for section in file.code_sections()? {
        let recognised = recognise(file.arch(), &section.bytes).filter(|_| file.kind() == Kind::Linked);
        stubs.extend(recognised.map(|recognised| (section.address, recognised)));
    }
    let (mut proven, others): (Vec<_>, Vec<_>) = functions.into_iter().partition(|function| {
        let section = stubs.range(..=function.start()).next_back();
        section.is_some_and(|(start, recognised)| recognised.has_rows_of(function, *start))
    });
    if by_code {
        let have_rows = have_rows_of_code(file, sections, &others)?;
        proven.extend(
            others.into_iter().zip(have_rows).filter(|(_, has_rows)| *has_rows).map(|(function, _)| function),
        );
        proven.sort_by_key(Function::start);
    }
    Ok(proven)
}

/// Returns the parts of ranges that lie in `outer`. The ranges are sorted and do not overlap.
fn inside(ranges: &[Range<Address>], outer: &Range<Address>) -> Vec<Range<Address>> {
    let first = ranges.partition_point(|range| range.end <= outer.start);
    let overlapping = ranges[first..].iter().take_while(|range| range.start < outer.end);
    overlapping.map(|range| range.start.max(outer.start)..range.end.min(outer.end)).collect()
}

/// Adds up the sizes of ranges.
fn size(ranges: &[Range<Address>]) -> u64 {
    ranges.iter().map(|range| range.end.0 - range.start.0).sum()
}
