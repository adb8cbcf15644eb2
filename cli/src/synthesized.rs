//! Functions that no CFI covers. A table has rows for them that are made from their code.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cfipack_code::Omission;
use cfipack_container::{CallFrameSection, File};
use cfipack_encoder::sframe::{Builder, TableFunction, TableRows};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Unsupported};
use cfipack_lint::synthesized::functions;
use serde::Serialize;

use crate::kept::Kept;
use crate::report::count::Number;
use crate::report::escaped::Escaped;
use crate::report::place::Places;
use crate::report::reasons;

/// A report has at most this many places of code that no function is known for.
const LISTED: usize = 5;

/// The number of functions that no CFI covers.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SynthesizedCounts {
    /// The number of functions whose rows are made from their code.
    pub functions: u64,
    /// The number of functions, and of other pieces of code, that get no rows.
    pub omitted: u64,
    /// The number of omitted functions for each reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The code that belongs to no known function, so that no rows were tried.
    pub not_tried: NotTried,
}

/// Code that belongs to no known function.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotTried {
    /// The number of bytes.
    pub bytes: u64,
    /// The pieces, the largest first.
    pub places: Vec<NotTriedPlace>,
}

/// A piece of code that belongs to no known function.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotTriedPlace {
    /// The address, or in a relocatable object the section and the offset in it.
    pub start: String,
    pub size: u64,
}

impl NotTried {
    fn new(file: &File<'_>, mut pieces: Vec<Range<Address>>) -> Self {
        let size = |piece: &Range<Address>| piece.end.0 - piece.start.0;
        pieces.sort_by_key(|piece| (Reverse(size(piece)), piece.start));
        let names = Places::new(file);
        let place =
            |piece: Range<Address>| NotTriedPlace { start: names.location(piece.start), size: size(&piece) };
        Self { bytes: pieces.iter().map(size).sum(), places: pieces.into_iter().map(place).collect() }
    }

    /// Returns the line of a report, or `None` if there is no such code. The sum of several files has no places.
    fn line(&self) -> Option<String> {
        if self.bytes == 0 {
            return None;
        }
        let mut line =
            format!("never tried, since no function is known there: {}", Number(self.bytes, "byte"));
        if !self.places.is_empty() {
            let listed = self.places.iter().take(LISTED);
            let listed: Vec<_> =
                listed.map(|place| format!("{} ({})", Escaped(&place.start), place.size)).collect();
            let all = Number(self.places.len().to_u64(), "place");
            let more = if self.places.len() > LISTED { ", the largest" } else { "" };
            line += &format!(" in {all}{more}: {}", listed.join(", "));
        }
        Some(line)
    }
}

impl SynthesizedCounts {
    /// Adds the counts of another table.
    pub fn add(&mut self, other: &Self) {
        self.functions += other.functions;
        self.not_tried.bytes += other.not_tried.bytes;
        for (reason, count) in &other.reasons {
            self.count_omitted(reason, *count);
        }
    }

    /// Returns the lines of a report.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let functions = Number(self.functions, "function");
        let mut line =
            format!("without CFI: {functions} synthesized from code, {} not synthesized", self.omitted);
        if let Some(reasons) = reasons::list(&self.reasons) {
            line += &format!(": {reasons}");
        }
        [Some(line), self.not_tried.line()].into_iter().flatten()
    }

    fn count_omitted(&mut self, reason: &'static str, count: u64) {
        self.omitted += count;
        *self.reasons.entry(reason).or_default() += count;
    }
}

/// The functions of a table whose rows are made from code.
#[derive(Debug, Default)]
pub struct Synthesized {
    /// The number of functions with and without rows.
    pub counts: SynthesizedCounts,
    starts: BTreeSet<u64>,
}

impl Synthesized {
    /// Adds the functions of a file that no CFI covers to a table. Functions that are `kept` from an old table are
    /// there already.
    pub fn push(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        kept: &Kept,
        builder: &mut Builder<'_>,
    ) -> anyhow::Result<Self> {
        let mut synthesized = Self::default();
        let without_cfi = functions(file, sections)?;
        if !without_cfi.others.is_empty() {
            synthesized.counts.count_omitted(Omission::NoEntry.name(), without_cfi.others.len().to_u64());
        }
        synthesized.counts.not_tried = NotTried::new(file, without_cfi.others);
        for (range, rows) in without_cfi.functions {
            if kept.overlaps(&range) {
                continue;
            }
            let rows = match rows {
                Ok(rows) => rows,
                Err(refused) => {
                    synthesized.counts.count_omitted(refused.omission.name(), 1);
                    continue;
                }
            };
            // Only functions below 4 GiB are followed.
            let size = (range.end.0 - range.start.0) as u32;
            let function = TableFunction::new(range.start.into(), size).with_address(true);
            match builder.push_table(&function, TableRows::Rows(rows.into_iter())) {
                Ok(_) => {
                    synthesized.counts.functions += 1;
                    synthesized.starts.insert(range.start.0);
                }
                Err(unsupported) => synthesized.counts.count_omitted(unsupported.reason.name(), 1),
            }
        }
        Ok(synthesized)
    }

    /// Counts a function that the table cannot distinguish or reach. Returns false if its rows are not made from code.
    pub fn omit(&mut self, omitted: &Unsupported) -> bool {
        let is_own = self.starts.remove(&omitted.function.address().0);
        if is_own {
            self.counts.functions -= 1;
            self.counts.count_omitted(omitted.reason.name(), 1);
        }
        is_own
    }
}
