//! Reads a changed file back, checks its structure, and compares its rows with their CFI.

use anyhow::{Context as _, bail};
use cfipack_container::{File, members};
use cfipack_roundtrip::structure::check_compact_unwind_edit;
use cfipack_roundtrip::unwind_info::{Code, Report, Table};
use serde::Serialize;

use super::edit::is_changeable;
use crate::compact::source;
use crate::report::compact_verdict;
use crate::report::escaped::Escaped;
use crate::report::place::Places;

/// How many contradictions are described.
const DESCRIBED: usize = 100;

/// The price of compact encodings: the number of PCs where they are not exact, although the FDEs are.
#[derive(Clone, Copy, Default, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Price {
    /// The PCs of the functions that get a compact encoding.
    pub pcs: u64,
    /// The PCs in prologues for which the new rows are not exact.
    pub pcs_prologue: u64,
    /// The PCs in epilogues for which the new rows are not exact.
    pub pcs_epilogue: u64,
}

/// The verdict on a changed file.
#[derive(Default, Debug)]
pub struct Judgement {
    /// The price of the change.
    pub price: Price,
    /// The number of functions whose rows contradicted the CFI before, and no longer do.
    pub repaired: u64,
    /// The number of functions whose rows contradict the CFI.
    pub contradicted: u64,
    /// Descriptions of the first ranges of code for which rows contradict the CFI.
    pub described: Vec<String>,
}

impl Judgement {
    /// Judges a changed file.
    ///
    /// # Errors
    /// More than the rows has changed, or a changed row does not represent the CFI.
    pub fn of(old: &[u8], new: &[u8]) -> anyhow::Result<Self> {
        let mut judgement = Self::default();
        let (mut before, mut after) = (members(old)?, members(new)?);
        loop {
            let (old, new) = match (before.next().transpose()?, after.next().transpose()?) {
                (None, None) => return Ok(judgement),
                (Some(old), Some(new)) if old.name == new.name => (old, new),
                _ => bail!("the new file has other members than the old one"),
            };
            let name = old.name.as_deref();
            let added = judgement.add(name, old.bytes, new.bytes);
            added.with_context(|| name.unwrap_or("the new file").to_owned())?;
        }
    }

    fn add(&mut self, name: Option<&str>, old: &[u8], new: &[u8]) -> anyhow::Result<()> {
        if old == new {
            if let Some(file) = object(new) {
                let report = judge(&file)?;
                self.describe(name, &file, &report);
            }
            return Ok(());
        }
        check_compact_unwind_edit(old, new)?;
        let file = File::parse(new)?;
        let (old, new) = (judge(&File::parse(old)?)?, judge(&file)?);
        let is_known = |start: &_| old.contradicted.binary_search(start).is_ok();
        let counts = |report: &Report| {
            let Report { pcs_different, pcs_scanned, handlers_different, pcs_missing, .. } = *report;
            [pcs_different, pcs_scanned, handlers_different, pcs_missing]
        };
        let is_worse = counts(&old).iter().zip(counts(&new)).any(|(old, new)| *old < new);
        if is_worse || !new.contradicted.iter().all(is_known) || old.unjudged != new.unjudged {
            let first = new.differences.first().map_or(String::new(), |first| format!(": {first}"));
            bail!("the new rows do not represent the CFI{first}");
        }
        self.repaired += (old.contradicted.len() - new.contradicted.len()) as u64;
        self.price.pcs_prologue += new.pcs_prologue.saturating_sub(old.pcs_prologue);
        self.price.pcs_epilogue += new.pcs_epilogue.saturating_sub(old.pcs_epilogue);
        let exact_or_step = |report: &Report| report.pcs_equal + report.pcs_prologue + report.pcs_epilogue;
        self.price.pcs += exact_or_step(&new).saturating_sub(exact_or_step(&old));
        self.describe(name, &file, &new);
        Ok(())
    }

    /// Describes the contradictions of an object. `name` is its name in an archive.
    fn describe(&mut self, name: Option<&str>, file: &File<'_>, report: &Report) {
        self.contradicted += report.contradicted.len() as u64;
        let room = DESCRIBED.saturating_sub(self.described.len());
        if report.contradicted.is_empty() || room == 0 {
            return;
        }
        let places = Places::new(file);
        for difference in report.differences.iter().take(room) {
            let place = places.name(difference.start);
            let words = difference.to_string();
            self.described.push(match name {
                Some(name) => format!("{}: {place}: {words}", Escaped(name)),
                None => format!("{place}: {words}"),
            });
        }
    }
}

/// Returns a member as an object of an architecture whose objects are changed.
fn object(bytes: &[u8]) -> Option<File<'_>> {
    let file = File::parse(bytes).ok()?;
    is_changeable(&file).then_some(file)
}

/// Compares the rows of an object with its CFI.
pub fn judge(file: &File<'_>) -> anyhow::Result<Report> {
    let sections = file.code_sections()?;
    let code = Code::new(sections.iter().map(|section| (section.address, &section.bytes[..])));
    let compact = source::rows(file)?;
    let rows = compact.iter().flat_map(source::entries_of_rows).map(|(_, entry)| entry).collect();
    compact_verdict::of_file(file, &Table::of_object(file.arch(), rows, code))
}
