//! Reports of `compact-unwind`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use cfipack_roundtrip::most_frequent_first;
use serde::Serialize;

use super::edit::Edited;
use super::judge::Price;
use crate::edit::{Change, changes};
use crate::io::output;
use crate::report::count::{Counts, Number, percent};
use crate::report::escaped::{Escaped, FileName};

/// A summary of the changes of a file.
#[derive(Debug)]
pub struct Summary<'s, 'a> {
    /// The name.
    pub name: FileName,
    /// The edited file.
    pub edited: &'s Edited<'a>,
    /// The price of the new encodings.
    pub price: Price,
    /// The size of the old file in bytes.
    pub old_len: usize,
}

impl Summary<'_, '_> {
    /// Writes the summary to standard error, in a single write.
    pub fn print(&self) -> anyhow::Result<()> {
        let mut text = Vec::new();
        let (Edited { plan, rewrite, .. }, price) = (self.edited, self.price);
        let kept: u64 = plan.reasons.values().sum();
        write!(text, "{}: {}", self.name, Number(plan.functions, "FDE"))?;
        if plan.functions != 0 {
            write!(text, ": {} get a compact encoding", plan.gained())?;
            write!(text, " ({})", percent(plan.gained(), plan.functions))?;
        }
        writeln!(text, "{}", Counts(&[("have one", plan.compact), ("stay in DWARF mode", kept)]))?;
        let reasons = most_frequent_first(&plan.reasons);
        if !reasons.is_empty() {
            writeln!(text, "  in DWARF mode: {}", Counts(&reasons).list())?;
        }
        write!(text, "  __compact_unwind: {} changed, ", Number(plan.gained() - plan.added(), "row"))?;
        write!(text, "{} new, in {}", plan.added(), Number(self.edited.objects, "object"))?;
        match self.edited.others {
            0 => writeln!(text)?,
            others => writeln!(text, ", {}", Number(others, "other"))?,
        }
        if !self.edited.other_slices.is_empty() {
            let names: Vec<_> =
                self.edited.other_slices.iter().map(|name| Escaped(name).to_string()).collect();
            writeln!(text, "  slices that stay as they are: {}", names.join(", "))?;
        }
        if !plan.personalities.is_empty() {
            let names: Vec<_> = plan.personalities.iter().map(|name| Escaped(name).to_string()).collect();
            writeln!(text, "  personalities: {}", names.join(", "))?;
        }
        writeln!(text, "  a linker can remove {} of FDEs", Number(plan.fde_bytes, "byte"))?;
        write!(text, "  pcs that were exact: {} in prologues and ", price.pcs_prologue)?;
        writeln!(text, "{} in epilogues, of {}", price.pcs_epilogue, price.pcs)?;
        writeln!(text, "  file: {} bytes, before {}", rewrite.len(), self.old_len)?;
        Ok(std::io::stderr().write_all(&text)?)
    }

    /// Writes the summary to standard output, as a line of JSON.
    pub fn print_json(&self) -> anyhow::Result<()> {
        let (Edited { plan, rewrite, .. }, price) = (self.edited, self.price);
        output::print_json(&SummaryJson {
            schema: "cfipack/compact-unwind/1",
            file: &self.name,
            objects: self.edited.objects,
            other_members: self.edited.others,
            other_slices: &self.edited.other_slices,
            functions: plan.functions,
            gained: plan.gained(),
            compact: plan.compact,
            dwarf: plan.reasons.values().sum(),
            reasons: &plan.reasons,
            changed_rows: plan.gained() - plan.added(),
            new_rows: plan.added(),
            personalities: &plan.personalities,
            fde_bytes: plan.fde_bytes,
            price,
            old_bytes: self.old_len,
            new_bytes: rewrite.len(),
            changes: changes(rewrite),
        })
    }
}

/// The summary, as `cfipack/compact-unwind/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SummaryJson<'s> {
    schema: &'static str,
    file: &'s FileName,
    objects: u64,
    /// Members of an archive and slices that stay as they are, because they are no Mach-O objects for x86-64 or arm64.
    other_members: u64,
    /// The slices of a fat file that stay as they are, because they contain no Mach-O object for x86-64 or arm64.
    other_slices: &'s [String],
    /// The number of FDEs: the sum of `gained`, `compact` and `dwarf`.
    functions: u64,
    gained: u64,
    compact: u64,
    dwarf: u64,
    reasons: &'s BTreeMap<&'static str, u64>,
    changed_rows: u64,
    new_rows: u64,
    personalities: &'s BTreeSet<String>,
    /// The size of the FDEs that a linker can remove, in bytes.
    fde_bytes: u64,
    #[serde(flatten)]
    price: Price,
    old_bytes: usize,
    new_bytes: usize,
    /// The bytes of the file that are new or have moved.
    changes: Vec<Change>,
}
