//! Reports of `compact-unwind`.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde::Serialize;

use super::edit::{Edited, Objects};
use super::judge::{Findings, Judgement, Price};
use crate::edit::{Change, changes};
use crate::io::output;
use crate::report::count::{Counts, Number, percent};
use crate::report::escaped::{Escaped, FileName};
use crate::report::reasons;

/// A summary of the changes of a file.
#[derive(Debug)]
pub struct Summary<'s, 'a> {
    pub name: FileName,
    pub edited: &'s Edited<'a>,
    /// The verdict on the new rows.
    pub judgement: &'s Judgement,
    /// The size of the old file in bytes.
    pub old_len: usize,
}

impl Summary<'_, '_> {
    /// Writes the summary to standard error, in a single write.
    pub fn print(&self) -> anyhow::Result<()> {
        let mut text = Vec::new();
        let Edited { objects, rewrite, other_slices } = self.edited;
        let Objects { plan, count, others, personalities, .. } = objects;
        let Judgement { price, repaired, contradicted, with_symbols, other, unjudged, .. } = self.judgement;
        let kept: u64 = plan.reasons.values().sum();
        write!(text, "{}: {}", self.name, Number(plan.functions, "FDE"))?;
        if plan.functions != 0 {
            write!(text, ": {} get a compact encoding", plan.gained)?;
            write!(text, " ({})", percent(plan.gained, plan.functions))?;
        }
        writeln!(text, "{}", Counts(&[("have one", plan.compact), ("stay in DWARF mode", kept)]))?;
        reasons::print(&mut text, "in DWARF mode", &plan.reasons)?;
        write!(text, "  __compact_unwind: {} changed, ", Number(plan.changed(), "row"))?;
        write!(text, "{} new, in {}", plan.added(), Number(*count, "object"))?;
        match *others {
            0 => writeln!(text)?,
            others => writeln!(text, ", {}", Number(others, "other"))?,
        }
        if !other_slices.is_empty() {
            let names: Vec<_> = other_slices.iter().map(|name| Escaped(name).to_string()).collect();
            writeln!(text, "  slices that stay as they are: {}", names.join(", "))?;
        }
        for (what, names) in [
            ("personalities", personalities.names().collect::<Vec<_>>()),
            ("personalities without room", personalities.refused().collect()),
        ] {
            let names: Vec<_> = names.into_iter().map(|name| Escaped(name).to_string()).collect();
            if !names.is_empty() {
                writeln!(text, "  {what}: {}", names.join(", "))?;
            }
        }
        writeln!(text, "  a linker can remove {} of FDEs", Number(plan.fde_bytes, "byte"))?;
        write!(text, "  pcs that were exact: {} in prologues and ", price.pcs_prologue)?;
        writeln!(text, "{} in epilogues, of {}", price.pcs_epilogue, price.pcs)?;
        for (what, Findings { functions, described }) in [
            ("repaired", repaired),
            ("rows that contradict the CFI or break a rule", contradicted),
            ("symbols inside without a row", with_symbols),
            ("other broken rules", other),
        ] {
            if *functions != 0 {
                writeln!(text, "  {what}: {}", Number(*functions, "function"))?;
                described.iter().try_for_each(|words| writeln!(text, "    {words}"))?;
            }
        }
        if *unjudged != 0 {
            writeln!(text, "  not judged: {}", Number(*unjudged, "function"))?;
        }
        writeln!(text, "  file: {} bytes, before {}", rewrite.len(), self.old_len)?;
        Ok(std::io::stderr().write_all(&text)?)
    }

    /// Writes the summary to standard output, as a line of JSON.
    pub fn print_json(&self) -> anyhow::Result<()> {
        let Edited { objects, rewrite, other_slices } = self.edited;
        let Objects { plan, count, others, personalities, .. } = objects;
        let Judgement { price, repaired, contradicted, with_symbols, other, unjudged, .. } = self.judgement;
        output::print_json(&SummaryJson {
            schema: "cfipack/compact-unwind/1",
            file: &self.name,
            objects: *count,
            other_members: *others,
            other_slices,
            functions: plan.functions,
            gained: plan.gained,
            compact: plan.compact,
            dwarf: plan.reasons.values().sum(),
            reasons: &plan.reasons,
            changed_rows: plan.changed(),
            new_rows: plan.added(),
            personalities: personalities.names().collect(),
            fde_bytes: plan.fde_bytes,
            price: *price,
            personalities_without_room: personalities.refused().collect(),
            with_symbols: with_symbols.functions,
            repaired: repaired.functions,
            repairs: &repaired.described,
            contradicted: contradicted.functions,
            contradictions: &contradicted.described,
            violations: with_symbols.described.iter().chain(&other.described).collect(),
            unjudged: *unjudged,
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
    /// The personalities of compact rows. A name is repeated for each object that has a symbol of its own.
    personalities: Vec<&'s str>,
    /// The personalities of functions that stay in DWARF mode, because an image cannot have a fourth.
    personalities_without_room: Vec<&'s str>,
    /// The size of the FDEs that a linker can remove, in bytes.
    fde_bytes: u64,
    #[serde(flatten)]
    price: Price,
    /// The number of functions with symbols inside that have no row. Such a symbol is in the middle of a function, and
    /// ld64.lld gives it no unwind information.
    with_symbols: u64,
    /// The number of functions whose rows contradicted the CFI or broke a rule, and do not any more.
    repaired: u64,
    /// Descriptions of the first of them, as they were before.
    repairs: &'s [String],
    /// The number of functions whose rows contradict the CFI or break a rule.
    contradicted: u64,
    /// Descriptions of the first of them.
    contradictions: &'s [String],
    /// Descriptions of the first functions with symbols inside, and of the first other rules that are broken.
    violations: Vec<&'s String>,
    /// The number of functions whose rows cannot be judged.
    unjudged: u64,
    old_bytes: usize,
    new_bytes: usize,
    /// The bytes of the file that are new or have moved.
    changes: Vec<Change>,
}
