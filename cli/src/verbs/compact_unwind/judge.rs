//! Reads a changed file back, checks its structure, and compares its rows with their CFI.

use anyhow::{Context as _, bail};
use cfipack_container::{File, members};
use cfipack_roundtrip::structure::check_compact_unwind_edit;
use cfipack_roundtrip::unwind_info::{Code, Report, Table};
use serde::Serialize;

use crate::compact::source;
use crate::report::compact_verdict;

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

impl Price {
    /// Judges a changed file, and returns the price of the change.
    ///
    /// # Errors
    /// More than the rows has changed, or a changed row does not represent the CFI.
    pub fn judge(old: &[u8], new: &[u8]) -> anyhow::Result<Self> {
        let mut price = Self::default();
        let (mut before, mut after) = (members(old)?, members(new)?);
        loop {
            let (old, new) = match (before.next().transpose()?, after.next().transpose()?) {
                (None, None) => return Ok(price),
                (Some(old), Some(new)) if old.name == new.name => (old, new),
                _ => bail!("the new file has other members than the old one"),
            };
            if old.bytes == new.bytes {
                continue;
            }
            let added = price.add(old.bytes, new.bytes);
            added.with_context(|| old.name.as_deref().unwrap_or("the new file").to_owned())?;
        }
    }

    fn add(&mut self, old: &[u8], new: &[u8]) -> anyhow::Result<()> {
        check_compact_unwind_edit(old, new)?;
        let (old, new) = (judge(&File::parse(old)?)?, judge(&File::parse(new)?)?);
        let wrong = |report: &Report| {
            let Report { pcs_different, pcs_scanned, handlers_different, pcs_missing, .. } = *report;
            (pcs_different, pcs_scanned, handlers_different, pcs_missing)
        };
        if wrong(&old) != wrong(&new) || old.unjudged != new.unjudged {
            let first = new.differences.first().map_or(String::new(), |first| format!(": {first}"));
            bail!("the new rows do not represent the CFI{first}");
        }
        self.pcs_prologue += new.pcs_prologue.saturating_sub(old.pcs_prologue);
        self.pcs_epilogue += new.pcs_epilogue.saturating_sub(old.pcs_epilogue);
        self.pcs += old.pcs_dwarf.saturating_sub(new.pcs_dwarf);
        Ok(())
    }
}

/// Compares the rows of an object with its CFI.
fn judge(file: &File<'_>) -> anyhow::Result<Report> {
    let sections = file.code_sections()?;
    let code = Code::new(sections.iter().map(|section| (section.address, &section.bytes[..])));
    let compact = source::rows(file)?;
    let rows = compact.iter().flat_map(source::entries_of_rows).map(|(_, entry)| entry).collect();
    compact_verdict::of_file(file, &Table::of_object(file.arch(), rows, code))
}
