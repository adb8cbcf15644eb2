//! Compares two tables by meaning: [`diff`] returns a [`Diff`], which lists each [`TableDifference`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, FunctionOffset, Row, Saved};

use super::compare::same_answer;
use super::fault::Fault;
use super::repeat::{Recurrence, each_piece, lcm};
use super::report::ListedDifference;
use super::table::{Table, TableAnswer};
use crate::limited::{Limited, Piece};
use crate::options::Options;
use crate::words::Answered;

/// The result of comparing table `a` with table `b`, by [`diff`] or [`unwind_info::diff`](crate::unwind_info::diff).
/// Here a function is an entry of a table's index: an FDE of `.sframe`, or an entry of `__unwind_info`. Only the
/// answers for PCs count. For example, two functions that one table has merged into a single function are equal if the
/// answers are the same.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Diff {
    /// The number of functions of `a` for which `b` has the same rows at every PC.
    pub equal: u64,
    /// The number of functions of `a` for which `b` has, at some PC, another row or none.
    pub different: u64,
    /// The number of functions of `a` for which `b` has no answer at any PC.
    pub only_a: u64,
    /// The number of functions of `b` with an answer for which `a` has no answer at any PC.
    pub only_b: u64,
    /// The number of faults in both tables. A fault is a function that cannot be read, a function that no search
    /// finds, a wrong number of FREs in a header, or a table for another architecture than the first table of `a`.
    pub malformed: u64,
    /// The first faults of `.sframe` tables: a list for `a` and a list for `b`, each with at most [`Options::limit`]
    /// faults.
    pub faults: [Vec<Fault>; 2],
    /// The number of PCs for which both tables have the same row.
    pub pcs_equal: u64,
    /// The number of PCs for which both tables have an answer, and the answers differ.
    pub pcs_different: u64,
    /// The number of PCs for which only `a` has an answer.
    pub pcs_only_a: u64,
    /// The number of PCs for which only `b` has an answer.
    pub pcs_only_b: u64,
    /// The first differences in order of address, at most [`Options::limit`].
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<ListedDifference>"))]
    pub differences: Vec<TableDifference>,
    /// The number of differences that `differences` does not list.
    pub more_differences: u64,
}

impl Diff {
    /// Returns whether both tables give the same answer for every PC, and neither has a fault.
    pub fn is_equal(&self) -> bool {
        self.pcs_different == 0 && self.pcs_only_a == 0 && self.pcs_only_b == 0 && self.malformed == 0
    }
}

/// A range of PCs for which two tables differ, in the same way at each PC.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(into = "ListedDifference"))]
pub struct TableDifference {
    /// The start of the function in table `a`, or in `b` if `a` has no function there.
    pub function: Address,
    /// The first PC.
    pub start: Address,
    /// The end of the range: one past the last PC.
    pub end: Address,
    /// Says how often the difference recurs after this range, in a PC-mask function.
    pub recurrence: Recurrence,
    /// The table that has the whole function, if the other table has no row for any of its PCs.
    pub only_in: Option<Side>,
    /// The answer of table `a`, in words.
    pub a: String,
    /// The answer of table `b`, in words.
    pub b: String,
    /// The rows of `a` and of `b` for these PCs, with the registers that compact unwind restores. The start of a row
    /// counts from the start of its table's function.
    pub rows: [Vec<(Row, Saved)>; 2],
}

/// One of two tables that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub enum Side {
    /// The first table.
    A,
    /// The second table.
    B,
}

impl From<TableDifference> for ListedDifference {
    fn from(difference: TableDifference) -> Self {
        let TableDifference { start, end, function, .. } = difference;
        Self { start, end, function: Some(function), words: difference.words() }
    }
}

impl Piece for TableDifference {
    fn continue_with(&mut self, next: &Self) -> bool {
        let is_continued = self.end == next.start
            && (self.function, self.recurrence, &self.a, &self.b)
                == (next.function, next.recurrence, &next.a, &next.b);
        if is_continued {
            self.end = next.end;
        }
        is_continued
    }
}

impl fmt::Display for TableDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, start, end, .. } = self;
        write!(f, "{start}..{end} in the function at {function}: {}", self.words())
    }
}

impl TableDifference {
    /// Describes the answers of both tables, without the addresses.
    pub fn words(&self) -> String {
        let Self { a, b, recurrence, .. } = self;
        match self.only_in {
            Some(Side::A) => format!("only in A: {a}{recurrence}"),
            Some(Side::B) => format!("only in B: {b}{recurrence}"),
            None => format!("A: {a}; B: {b}{recurrence}"),
        }
    }
}

/// A difference before it is described. Only the first differences of a report need words.
struct Found {
    function: Address,
    range: Range<u64>,
    recurrence: Recurrence,
    /// The answers of both tables at the first PC.
    answers: [TableAnswer; 2],
    /// If only one table answers, its answers after the first.
    more: Vec<TableAnswer>,
    /// The PCs of the whole function, in the table that has it.
    extent: Range<u64>,
}

impl Piece for Found {
    fn continue_with(&mut self, next: &Self) -> bool {
        let place = |found: &Self| (found.function, found.recurrence, found.one_side());
        if self.range.end != next.range.start || place(self) != place(next) {
            return false;
        }
        if self.answers.each_ref().map(unplaced) != next.answers.each_ref().map(unplaced) {
            // If one table lacks a function, all rows of the function are one difference.
            let Some(side) = self.one_side() else { return false };
            let answer = next.answers[side as usize];
            let last = self.more.last().unwrap_or(&self.answers[side as usize]);
            if unplaced(last) != unplaced(&answer) {
                self.more.push(answer);
            }
        }
        self.range.end = next.range.end;
        true
    }
}

impl Found {
    /// Returns the table that answers, if the other table does not.
    fn one_side(&self) -> Option<Side> {
        match self.answers {
            [_, TableAnswer::Nothing] => Some(Side::A),
            [TableAnswer::Nothing, _] => Some(Side::B),
            _ => None,
        }
    }

    /// Returns whether the difference covers the whole function.
    fn is_whole(&self) -> bool {
        let Recurrence { period, times } = self.recurrence;
        let len = if times == 1 { self.range.end - self.range.start } else { period * times };
        self.range.start == self.extent.start && len == self.extent.end - self.extent.start
    }

    fn describe(self, arch: Arch) -> TableDifference {
        let only_in = self.one_side().filter(|_| self.is_whole());
        let Self { function, range, recurrence, answers: [a, b], more, .. } = self;
        let words = |own, other| match (own, other) {
            (TableAnswer::Row(..), TableAnswer::Nothing) if !more.is_empty() => {
                format!("{} rows", 1 + more.len())
            }
            _ => Answered { arch, own: unplaced(&own), other: unplaced(&other) }.to_string(),
        };
        let (words_a, words_b) = (words(a, b), words(b, a));
        let rows = |first, other| {
            let rest = if other == TableAnswer::Nothing { &more[..] } else { &[] };
            let rows = [first].into_iter().chain(rest.iter().copied()).filter_map(|answer| match answer {
                TableAnswer::Row(row, _) => Some((row, Saved::default())),
                _ => None,
            });
            rows.collect()
        };
        let (start, end) = (Address(range.start), Address(range.end));
        let rows = [rows(a, b), rows(b, a)];
        TableDifference { function, start, end, recurrence, only_in, a: words_a, b: words_b, rows }
    }
}

/// Returns the answer with the start of its row set to 0, so that rows can be compared without it.
fn unplaced(answer: &TableAnswer) -> TableAnswer {
    let mut answer = *answer;
    if let TableAnswer::Row(row, _) = &mut answer {
        row.start = FunctionOffset(0);
    }
    answer
}

/// The result for a function so far.
struct FunctionState {
    /// The place of the function in its table, or `None` between functions.
    place: Option<usize>,
    /// True while the other table has had the same rows at all PCs of the function.
    is_alike: bool,
    /// True if both tables have a row for at least one PC of the function.
    is_met: bool,
}

impl FunctionState {
    fn at(place: Option<usize>) -> Self {
        Self { place, is_alike: true, is_met: false }
    }

    /// Moves to the function at a place. Returns the result of the function before it, if this is another function.
    fn go_on(&mut self, place: Option<usize>) -> Option<Self> {
        if place == self.place {
            return None;
        }
        let left = std::mem::replace(self, Self::at(place));
        left.place.is_some().then_some(left)
    }
}

/// The results of functions in several pieces, by place. They are complete when the walk ends.
#[derive(Default)]
struct Pieces(BTreeMap<usize, FunctionState>);

impl Pieces {
    /// Takes the result of a function that the walk has left, and returns it. If the function has several pieces, this
    /// keeps the result and returns `None`.
    fn keep_pieces(&mut self, table: &Table<'_>, left: Option<FunctionState>) -> Option<FunctionState> {
        let met = left?;
        let Some(place) = met.place.filter(|&place| table.is_in_pieces(place)) else { return Some(met) };
        let all = self.0.entry(place).or_insert(FunctionState::at(Some(place)));
        all.is_alike &= met.is_alike;
        all.is_met |= met.is_met;
        None
    }
}

/// Compares two tables at every PC for which at least one of them has a row. It does not matter how the tables divide
/// the PCs into functions. Of the [`Options`], only the limit counts.
pub fn diff(a: &Table<'_>, b: &Table<'_>, options: &Options) -> Diff {
    let arch = a.arch().or(b.arch()).unwrap_or(Arch::Amd64);
    let mut faults = [a, b].map(|table| table.faults_for(arch));
    let malformed = faults.iter().flatten().count().to_u64();
    faults.iter_mut().for_each(|faults| faults.truncate(options.limit));
    let mut walk = Walk {
        arch,
        diff: Diff { malformed, faults, ..Diff::default() },
        differences: Limited::new(options.limit),
        met: [FunctionState::at(None), FunctionState::at(None)],
    };
    let (mut cursor_a, mut cursor_b) = (a.cursor(), b.cursor());
    let (mut pieces_a, mut pieces_b) = (Pieces::default(), Pieces::default());
    let mut pc = 0;
    while pc < u64::MAX {
        let (at_a, at_b) = (cursor_a.seek(pc), cursor_b.seek(pc));
        let [left_a, left_b] = walk.go_on([at_a.function, at_b.function]);
        walk.diff.count_left(pieces_a.keep_pieces(a, left_a), pieces_b.keep_pieces(b, left_b));
        let end = at_a.end.min(at_b.end);
        let start_in = |table: &Table<'_>, place: Option<usize>| Some(table.extent(place?)?.start);
        let function = start_in(a, at_a.function).or_else(|| start_in(b, at_b.function));
        let extents = [(a, &at_a), (b, &at_b)]
            .map(|(table, at)| table.extent(at.piece).filter(|_| at.function.is_some()));
        if let Some(function) = function {
            let period = lcm(at_a.period(), at_b.period());
            let until = |pc| at_a.until(pc).min(at_b.until(pc));
            each_piece(pc..end, period, until, |range, recurrence| {
                let (in_a, in_b) = (at_a.at(range.start), at_b.at(range.start));
                walk.judge(Address(function), range, recurrence, [in_a, in_b], &extents);
            });
        }
        pc = end;
    }
    let [left_a, left_b] = walk.go_on([None, None]);
    let Walk { mut diff, differences, .. } = walk;
    diff.count_left(pieces_a.keep_pieces(a, left_a), pieces_b.keep_pieces(b, left_b));
    pieces_a.0.into_values().for_each(|met| diff.count_left(Some(met), None));
    pieces_b.0.into_values().for_each(|met| diff.count_left(None, Some(met)));
    let (first, more) = differences.finish();
    diff.differences = first.into_iter().map(|found| found.describe(arch)).collect();
    diff.more_differences = more;
    diff
}

/// The state of a comparison of two tables.
struct Walk {
    arch: Arch,
    /// The counts. The differences are added at the end.
    diff: Diff,
    differences: Limited<Found>,
    /// The functions of `a` and of `b` at the current PC.
    met: [FunctionState; 2],
}

impl Walk {
    /// Moves to other functions. Returns the results of the functions that the walk has left.
    fn go_on(&mut self, [a, b]: [Option<usize>; 2]) -> [Option<FunctionState>; 2] {
        let [met_a, met_b] = &mut self.met;
        [met_a.go_on(a), met_b.go_on(b)]
    }

    /// Compares the answers of both tables for a range of PCs.
    #[inline]
    fn judge(
        &mut self,
        function: Address,
        range: Range<u64>,
        recurrence: Recurrence,
        [a, b]: [&TableAnswer; 2],
        extents: &[Option<Range<u64>>; 2],
    ) {
        let Self { arch, diff, differences, met: [met_a, met_b] } = self;
        let pcs = (range.end - range.start) * recurrence.times;
        let has = [a, b].map(|answer| *answer != TableAnswer::Nothing);
        let both = has == [true, true];
        met_a.is_met |= both;
        met_b.is_met |= both;
        if same_answer(a, b, *arch) {
            diff.pcs_equal += if has[0] { pcs } else { 0 };
            return;
        }
        met_a.is_alike = false;
        // A function of `b` without rows of its own does not count as only in `b`.
        met_b.is_alike &= !has[1];
        *match has {
            [true, false] => &mut diff.pcs_only_a,
            [false, _] => &mut diff.pcs_only_b,
            [true, true] => &mut diff.pcs_different,
        } += pcs;
        let extent = extents[usize::from(!has[0])].clone().unwrap_or_default();
        differences.add(Found { function, range, recurrence, answers: [*a, *b], more: Vec::new(), extent });
    }
}

impl Diff {
    /// Counts the functions that the walk has left.
    fn count_left(&mut self, a: Option<FunctionState>, b: Option<FunctionState>) {
        if let Some(a) = a {
            self.count_of_a(a.is_alike, a.is_met);
        }
        if let Some(b) = b {
            self.count_of_b(b.is_met || b.is_alike);
        }
    }

    /// Counts a function of table `a`. `is_alike` is true if `b` has the same rows at all its PCs, and `is_met` if
    /// `b` has a row for at least one of its PCs.
    pub(crate) fn count_of_a(&mut self, is_alike: bool, is_met: bool) {
        match (is_alike, is_met) {
            (true, _) => self.equal += 1,
            (false, true) => self.different += 1,
            (false, false) => self.only_a += 1,
        }
    }

    /// Counts a function of table `b`. `is_met` is true if `a` has a row for at least one of its PCs.
    pub(crate) fn count_of_b(&mut self, is_met: bool) {
        if !is_met {
            self.only_b += 1;
        }
    }
}
