//! Reads a changed file back, checks its structure, and compares its rows with their CFI.

use std::collections::BTreeSet;
use std::fmt::Display;

use anyhow::{Context as _, bail};
use cfipack_container::{File, members};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, ImageOffset};
use cfipack_roundtrip::structure::check_compact_unwind_edit;
use cfipack_roundtrip::unwind_info::{Report, Violation};
use serde::Serialize;

use crate::compact::source;
use crate::report::compact_verdict::{self, Verdict};
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
    /// The functions that had a row that contradicts the CFI or breaks a rule, and have none any more.
    pub repaired: Findings,
    /// The functions that have such a row.
    pub contradicted: Findings,
    /// The functions with symbols inside that have no row.
    pub with_symbols: Findings,
    /// Other rules that the rows break.
    pub other: Findings,
    /// The number of functions whose rows cannot be judged.
    pub unjudged: u64,
    /// True if `verify` of the new file ends with a status other than 0.
    pub is_faulty: bool,
}

/// Functions with a finding.
#[derive(Default, Debug)]
pub struct Findings {
    /// The number of functions.
    pub functions: u64,
    /// Descriptions of the first findings.
    pub described: Vec<String>,
}

impl Findings {
    fn add(&mut self, functions: usize, described: impl Iterator<Item = String>) {
        self.functions += functions.to_u64();
        let room = DESCRIBED.saturating_sub(self.described.len());
        self.described.extend(described.take(room));
    }
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
                self.describe(&judge(&file)?, &Place::new(name, &file));
            }
            return Ok(());
        }
        check_compact_unwind_edit(old, new)?;
        let file = File::parse(new)?;
        let (old, new) = (judge(&File::parse(old)?)?, judge(&file)?);
        let (before, after) = (old.faulty(), new.faulty());
        if is_worse(&old.report, &new.report) || !after.is_subset(&before) {
            let first = new.report.differences.first().map(ToString::to_string);
            let first = first.or_else(|| new.broken.first().map(ToString::to_string));
            bail!("the new rows do not represent the CFI: {}", first.unwrap_or_default());
        }
        let place = Place::new(name, &file);
        let repaired: BTreeSet<_> = before.difference(&after).copied().collect();
        self.repaired.add(repaired.len(), place.faults(&old, &repaired));
        self.price.pcs_prologue += new.report.pcs_prologue.saturating_sub(old.report.pcs_prologue);
        self.price.pcs_epilogue += new.report.pcs_epilogue.saturating_sub(old.report.pcs_epilogue);
        let exact_or_step = |report: &Report| report.pcs_equal + report.pcs_prologue + report.pcs_epilogue;
        self.price.pcs += exact_or_step(&new.report).saturating_sub(exact_or_step(&old.report));
        self.describe(&new, &place);
        Ok(())
    }

    /// Adds the verdict on an object of the new file.
    fn describe(&mut self, verdict: &Verdict, place: &Place<'_, '_>) {
        let faulty = verdict.faulty();
        self.is_faulty |= !verdict.passes();
        self.unjudged += verdict.report.unjudged;
        self.contradicted.add(faulty.len(), place.faults(verdict, &faulty));
        let broken = verdict.broken.iter().filter(|broken| !broken.is_warning());
        let broken = broken.filter(|broken| broken.function_of_row().is_none());
        let (inside, other): (Vec<&Violation>, Vec<_>) =
            broken.partition(|broken| broken.name() == "symbol-inside");
        for (findings, list) in [(&mut self.with_symbols, inside), (&mut self.other, other)] {
            findings.add(list.len(), list.iter().map(|broken| place.rule(broken)));
        }
    }
}

/// Returns whether the new rows of an object are worse than the old ones.
fn is_worse(old: &Report, new: &Report) -> bool {
    let counts = |report: &Report| {
        let Report { pcs_different, pcs_scanned, handlers_different, pcs_missing, .. } = *report;
        [pcs_different, pcs_scanned, handlers_different, pcs_missing]
    };
    // A function that differs counts as different, even if the rest of its CFI cannot be judged.
    counts(old).iter().zip(counts(new)).any(|(old, new)| *old < new)
        || new.unjudged > old.unjudged + old.different
}

/// Names the places of an object.
struct Place<'p, 'a> {
    /// The name of the object in an archive.
    member: Option<&'p str>,
    places: Places<'p, 'a>,
}

impl<'p, 'a> Place<'p, 'a> {
    fn new(member: Option<&'p str>, file: &'p File<'a>) -> Self {
        Self { member, places: Places::new(file) }
    }

    fn line(&self, words: impl Display) -> String {
        self.member.map_or_else(|| words.to_string(), |name| format!("{}: {words}", Escaped(name)))
    }

    /// Describes a rule that is broken.
    fn rule(&self, broken: &Violation) -> String {
        let name = |function: ImageOffset| self.places.name(Address(function.0.into())) + ": ";
        let place = broken.function.map(name).unwrap_or_default();
        self.line(format_args!("{place}__compact_unwind: {broken}"))
    }

    /// Describes the differences and broken rules of functions.
    fn faults<'f>(
        &'f self,
        verdict: &'f Verdict,
        functions: &'f BTreeSet<Address>,
    ) -> impl Iterator<Item = String> + use<'f, 'p, 'a> {
        let differences = verdict.report.differences.iter();
        let differences = differences.filter(|difference| functions.contains(&difference.function));
        let differences =
            differences.map(|found| self.line(format_args!("{}: {found}", self.places.name(found.start))));
        let broken = verdict.broken.iter().filter(|broken| !broken.is_warning());
        let broken = broken.filter(|broken| {
            let function = broken.function_of_row();
            function.is_some_and(|function| functions.contains(&Address(function.0.into())))
        });
        let broken = broken.map(|broken| self.rule(broken));
        differences.chain(broken)
    }
}

/// Returns a member as an object of an architecture whose objects are changed.
fn object(bytes: &[u8]) -> Option<File<'_>> {
    let file = File::parse(bytes).ok()?;
    is_changeable(&file).then_some(file)
}

/// Verifies an object, as `verify` does.
pub fn judge(file: &File<'_>) -> anyhow::Result<Verdict> {
    let compact = source::rows(file)?;
    let rows: Vec<_> = compact.iter().flat_map(source::entries_of_rows).collect();
    compact_verdict::of_rows(file, &rows)
}

/// Returns whether a file is for an architecture whose objects are changed.
pub fn is_changeable(file: &File<'_>) -> bool {
    file.as_macho().is_some() && file.arch().has_compact_unwind() && file.arch().pointer_size() == 8
}
