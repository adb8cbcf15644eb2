//! Functions that no CFI covers. A table has rows for them that are made from their code.

use std::collections::{BTreeMap, BTreeSet};

use cfipack_code::Omission;
use cfipack_container::{CallFrameSection, File};
use cfipack_encoder::sframe::{Builder, TableFunction, TableRows};
use cfipack_format::Unsupported;
use cfipack_lint::synthesized::functions;
use cfipack_roundtrip::most_frequent_first;
use serde::Serialize;

use crate::kept::Kept;
use crate::report::count::{Counts, Number};

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
}

impl SynthesizedCounts {
    /// Adds the counts of another table.
    pub fn add(&mut self, other: &Self) {
        self.functions += other.functions;
        for (reason, count) in &other.reasons {
            self.count_omitted(reason, *count);
        }
    }

    /// Returns the line of a report.
    pub fn line(&self) -> String {
        let functions = Number(self.functions, "function");
        let mut line =
            format!("without CFI: {functions} synthesized from code, {} not synthesized", self.omitted);
        let reasons = most_frequent_first(&self.reasons);
        if !reasons.is_empty() {
            line += &format!(": {}", Counts(&reasons).list());
        }
        line
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
        if without_cfi.others != 0 {
            synthesized.counts.count_omitted(Omission::NoEntry.name(), without_cfi.others);
        }
        for (range, rows) in without_cfi.functions {
            if kept.overlaps(&range) {
                continue;
            }
            let rows = match rows {
                Ok(rows) => rows,
                Err(omission) => {
                    synthesized.counts.count_omitted(omission.name(), 1);
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
