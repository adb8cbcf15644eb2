//! Rows of functions that no CFI covers, made of their code, and what `verify` makes of such rows.

mod jumps;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cfipack_code::{Analysis, Candidate, Code, Omission, Rows, Surroundings, synthesize_with};
use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Builder, TableFunction, TableRows};
use cfipack_format::{Address, Row, Unsupported};
use cfipack_roundtrip::most_frequent_first;
use serde::Serialize;

use crate::against_code::memory::FileMemory;
use crate::coverage::{self, Gaps};
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
        let Uncovered { functions, others } = Uncovered::of(file, sections)?;
        if others != 0 {
            synthesized.counts.omit(Omission::NoEntry.name(), others);
        }
        let all = rows(file, sections, &functions, |analysis| analysis.synthesize())?;
        for (range, rows) in functions.iter().zip(all) {
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

/// The code of a file that no CFI covers, but for padding.
struct Uncovered {
    /// Functions, by their symbols, ascending and apart.
    functions: Vec<Range<Address>>,
    /// The number of pieces that no symbol of a function has.
    others: u64,
}

impl Uncovered {
    fn of(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> anyhow::Result<Self> {
        let covered = coverage::merged(coverage::of_cfi(sections)?);
        let mut pieces = Vec::new();
        Gaps::new(file, &covered).for_each(|gap| pieces.push((gap.addresses, gap.is_padding)))?;
        let symbols = file.symbols()?;
        // The functions' symbols that have nothing before them but code of others.
        let (mut functions, mut others): (Vec<Range<Address>>, u64) = (Vec::new(), 0);
        let mut extent = Address(0);
        for (piece, is_padding) in pieces {
            // Labels divide a function, and padding in the middle does.
            if let Some(last) =
                functions.last_mut().filter(|last| last.end == piece.start && piece.start < extent)
                && !symbols.is_function(piece.start)
            {
                last.end = piece.end.min(extent);
                continue;
            }
            if is_padding {
                continue;
            }
            if !symbols.is_function(piece.start) {
                others += 1;
                continue;
            }
            extent = symbols.extent(piece.start).map_or(piece.end, |extent| extent.end);
            functions.push(piece);
        }
        Ok(Self { functions, others })
    }
}

/// Functions that no CFI covers, with the rows of all registers.
pub struct Described {
    /// The functions, ascending.
    pub functions: Vec<(Range<Address>, Result<Rows, Omission>)>,
    /// The number of pieces of code that no symbol of a function has.
    pub others: u64,
}

impl Described {
    /// The functions of a file that no CFI covers.
    pub fn of(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> anyhow::Result<Self> {
        let Uncovered { functions, others } = Uncovered::of(file, sections)?;
        let rows = rows(file, sections, &functions, |analysis| analysis.describe())?;
        Ok(Self { functions: functions.into_iter().zip(rows).collect(), others })
    }
}

/// The rows of functions, from their code.
fn rows<T>(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    functions: &[Range<Address>],
    rows: impl Fn(&Analysis<'_>) -> Result<T, Omission>,
) -> anyhow::Result<Vec<Result<T, Omission>>> {
    let memory = FileMemory::new(file)?;
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
        })
        .collect();
    let jumps::Into { jumps, calls } = jumps::into(file, sections, &memory, functions);
    let surroundings = Surroundings { jumps: &jumps, calls: &calls, is_inside: &is_inside };
    Ok(synthesize_with(&candidates, &surroundings, &memory, rows))
}

/// The function at an address that no CFI covers, and its rows from code.
pub fn at(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    address: Address,
) -> anyhow::Result<Option<(Range<Address>, Made)>> {
    let mut functions = Uncovered::of(file, sections)?.functions;
    let Some(index) = functions.iter().position(|range| range.contains(&address)) else { return Ok(None) };
    // What the others do decides how it is entered.
    let rows = rows(file, sections, &functions, |analysis| analysis.synthesize())?.swap_remove(index);
    Ok(Some((functions.swap_remove(index), rows)))
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
    found.sort_by_key(|(range, _)| range.start);
    found.dedup_by(|next, before| next.0.start < before.0.end);
    let functions: Vec<_> = found.iter().map(|(range, _)| range.clone()).collect();
    let symbols = file.symbols()?;
    let by_code = rows(file, sections, &functions, |analysis| analysis.synthesize())?;
    let is_same = |own: &[Row], made: &[Row]| {
        let mut pairs = own.iter().zip(made);
        own.len() == made.len() && pairs.all(|(own, made)| own.start == made.start && own.unwinds_as(made))
    };
    let judged = found.into_iter().zip(by_code).filter_map(|((range, own), made)| {
        let is_right = symbols.is_function(range.start) && made.is_ok_and(|made| is_same(&own, &made));
        is_right.then_some(range.start.0..range.end.0)
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
