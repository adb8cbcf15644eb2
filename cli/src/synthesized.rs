//! Rows of functions that no CFI covers, made of their code, and what `verify` makes of such rows.

mod jumps;
mod uncovered;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cfipack_code::{Analysis, Candidate, Code, Omission, Rows, Surroundings, synthesize_with};
use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Builder, TableFunction, TableRows};
use cfipack_format::{Address, Row, Unsupported};
use cfipack_roundtrip::most_frequent_first;
use serde::Serialize;

use self::uncovered::Uncovered;
use crate::against_code::memory::FileMemory;
use crate::coverage;
use crate::report::count::{Counts, Number};

/// The number of functions that no CFI covers.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SynthesizedCounts {
    /// Functions with rows from code.
    pub functions: u64,
    /// Functions, and other code, without.
    pub omitted: u64,
    /// The number for each reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl SynthesizedCounts {
    /// Counts those of another table too.
    pub fn add(&mut self, other: &Self) {
        self.functions += other.functions;
        for (reason, count) in &other.reasons {
            self.omit(reason, *count);
        }
    }

    /// The line of a report.
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

    fn omit(&mut self, reason: &'static str, count: u64) {
        self.omitted += count;
        *self.reasons.entry(reason).or_default() += count;
    }
}

/// The functions of a table that are made of code.
#[derive(Debug, Default)]
pub struct Synthesized {
    /// The number of functions with and without rows.
    pub counts: SynthesizedCounts,
    starts: BTreeSet<u64>,
}

impl Synthesized {
    /// Adds the functions of a file that no CFI covers to a table's.
    pub fn push(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        builder: &mut Builder<'_>,
    ) -> anyhow::Result<Self> {
        let mut synthesized = Self::default();
        let memory = FileMemory::new(file)?;
        let uncovered = Uncovered::of(file, sections, &memory)?;
        if uncovered.others != 0 {
            synthesized.counts.omit(Omission::NoEntry.name(), uncovered.others);
        }
        let all = rows(file, sections, &memory, &uncovered, |analysis| analysis.synthesize())?;
        for (range, rows) in uncovered.functions.iter().zip(all) {
            let rows = match rows {
                Ok(rows) => rows,
                Err(omission) => {
                    synthesized.counts.omit(omission.name(), 1);
                    continue;
                }
            };
            // What is followed is smaller than 4 GiB.
            let size = (range.end.0 - range.start.0) as u32;
            let function = TableFunction::new(range.start.into(), size).with_address(true);
            match builder.push_table(&function, TableRows::Rows(rows.into_iter())) {
                Ok(_) => {
                    synthesized.counts.functions += 1;
                    synthesized.starts.insert(range.start.0);
                }
                Err(unsupported) => synthesized.counts.omit(unsupported.reason.name(), 1),
            }
        }
        Ok(synthesized)
    }

    /// Leaves out a function that the table cannot distinguish or reach; false if it is not one of these.
    pub fn leave_out(&mut self, omitted: &Unsupported) -> bool {
        let is_own = self.starts.remove(&omitted.function.address().0);
        if is_own {
            self.counts.functions -= 1;
            self.counts.omit(omitted.reason.name(), 1);
        }
        is_own
    }
}

/// The rows of a function, or the reason why it gets none.
type Made = Result<Vec<Row>, Omission>;

/// Functions that no CFI covers, with the rows of all registers.
pub struct Described {
    /// The functions, ascending.
    pub functions: Vec<(Range<Address>, Result<Rows, Omission>)>,
    /// The number of pieces of code that no symbol of a function has.
    pub others: u64,
}

impl Described {
    /// The functions of a file that no CFI covers, and that have symbols.
    pub fn of(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> anyhow::Result<Self> {
        let memory = FileMemory::new(file)?;
        let uncovered = Uncovered::of(file, sections, &memory)?;
        let rows = rows(file, sections, &memory, &uncovered, |analysis| analysis.describe())?;
        let Uncovered { functions, without_symbol, others } = uncovered;
        let others = others + without_symbol.len() as u64;
        let named = |(range, _): &(Range<Address>, _)| !without_symbol.contains(&range.start);
        Ok(Self { functions: functions.into_iter().zip(rows).filter(named).collect(), others })
    }
}

/// The rows of functions, from their code.
fn rows<T>(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    memory: &FileMemory<'_>,
    uncovered: &Uncovered,
    rows: impl Fn(&Analysis<'_>) -> Result<T, Omission>,
) -> anyhow::Result<Vec<Result<T, Omission>>> {
    let functions = &uncovered.functions;
    let symbols = file.symbols()?;
    let mut covered = coverage::of_cfi(sections)?;
    covered.sort_by_key(|range| (range.start, range.end));
    let is_inside = |address: Address| {
        let before = covered.partition_point(|range| range.start <= address).checked_sub(1);
        let is_in_cfi = before.is_some_and(|before| {
            let range = &covered[before];
            range.start < address && address < range.end
        });
        !memory.is_stub(address)
            && (is_in_cfi || symbols.lookup(address).is_some_and(|symbol| symbol.offset != 0))
    };
    let codes: Vec<_> = functions
        .iter()
        .map(|range| memory.code(range.start, range.end.0 - range.start.0).unwrap_or_default())
        .collect();
    let candidates: Vec<_> = functions
        .iter()
        .zip(&codes)
        .map(|(range, (bytes, relocated))| Candidate {
            code: Code { arch: file.arch(), start: range.start, bytes, relocated },
            call_sites: &[],
            is_named: !uncovered.without_symbol.contains(&range.start),
        })
        .collect();
    let jumps::Into { jumps, calls } = jumps::into(file, sections, memory, functions);
    let surroundings = Surroundings { jumps: &jumps, calls: &calls, is_inside: &is_inside };
    Ok(synthesize_with(&candidates, &surroundings, memory, rows))
}

/// The function at an address that no CFI covers, and its rows from code.
pub fn at(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    address: Address,
) -> anyhow::Result<Option<(Range<Address>, Made)>> {
    let memory = FileMemory::new(file)?;
    let uncovered = Uncovered::of(file, sections, &memory)?;
    let index = uncovered.functions.iter().position(|range| range.contains(&address));
    let Some(index) = index else { return Ok(None) };
    // What the others do decides how it is entered.
    let mut rows = rows(file, sections, &memory, &uncovered, |analysis| analysis.synthesize())?;
    Ok(Some((uncovered.functions[index].clone(), rows.swap_remove(index))))
}

/// The PCs of functions of tables that no CFI covers, and whose rows are those that their code gives: ascending and apart.
///
/// It is the same engine that makes such rows: no second opinion, but one about the table as it stands in the file.
pub fn judged(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    tables: &[Section<'_>],
) -> anyhow::Result<Vec<Range<u64>>> {
    // CFI that cannot be read is reported as that.
    let Ok(covered) = coverage::of_cfi(sections) else { return Ok(Vec::new()) };
    let covered = coverage::merged(covered);
    let mut found = Vec::new();
    for function in tables.iter().flat_map(Section::functions).filter_map(Result::ok) {
        let range = function.start()..function.start().offset(function.size().into());
        let next = covered.partition_point(|covered| covered.end <= range.start);
        let is_covered = covered.get(next).is_some_and(|covered| covered.start < range.end);
        if is_covered || range.is_empty() || function.is_pc_mask() || function.is_signal_frame() {
            continue;
        }
        if let Ok(rows) = function.rows().collect::<Result<Vec<Row>, _>>() {
            found.push((range, rows));
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let memory = FileMemory::new(file)?;
    // With the functions that the table does not have: what they do decides how the others are entered.
    let uncovered = Uncovered::of(file, sections, &memory)?;
    let by_code = rows(file, sections, &memory, &uncovered, |analysis| analysis.synthesize())?;
    let made: BTreeMap<_, _> =
        uncovered.functions.iter().zip(by_code).map(|(range, made)| (range.start, (range, made))).collect();
    let is_same = |own: &[Row], made: &[Row]| {
        let mut pairs = own.iter().zip(made);
        own.len() == made.len() && pairs.all(|(own, made)| own.start == made.start && own.unwinds_as(made))
    };
    found.sort_by_key(|(range, _)| range.start);
    found.dedup_by(|next, before| next.0.start < before.0.end);
    let judged = found.into_iter().filter_map(|(range, own)| {
        let (made_of, Ok(rows)) = made.get(&range.start)? else { return None };
        (**made_of == range && is_same(&own, rows)).then_some(range.start.0..range.end.0)
    });
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in judged {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    Ok(all)
}
